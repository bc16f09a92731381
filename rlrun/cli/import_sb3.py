"""Commands for files of other libraries: ``rlrun import-sb3`` imports a policy, ``rlrun translate`` a spec."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from rlrun.cli.json_document import print_json, wants_json
from rlrun.cli.options import complete_envs, json_option, runs_dir_option, set_option
from rlrun.cli.tables import echo


@click.command("import-sb3")
@click.argument("file", metavar="ZIP", type=click.Path(path_type=Path))
@click.option(
    "--env", required=True, shell_complete=complete_envs, help="Env in which the policy acts, such as CartPole-v1."
)
@click.option(
    "--algorithm",
    type=click.Choice(["ppo", "a2c", "dqn", "qrdqn", "sac", "tqc", "td3"]),
    help="Algorithm; default: detected from the parameter names.",
)
@click.option(
    "--normalization",
    type=click.Path(path_type=Path),
    metavar="NPZ",
    help="File with the statistics of the policy's VecNormalize (.npz).",
)
@click.option("--name", help="Name of the run; default: derived from env and algorithm.")
@set_option
@runs_dir_option
@json_option("the run's directory, algorithm and env")
def import_sb3(
    file: Path,
    env: str,
    algorithm: str | None,
    normalization: Path | None,
    name: str | None,
    overrides: tuple[str, ...],
    runs_dir: Path,
) -> None:
    """Import a policy saved by Stable-Baselines3 or sb3-contrib as a run.

    ZIP is a file written by model.save of PPO, A2C, DQN, QR-DQN, SAC, TQC or TD3.
    No code in it is executed: rlrun reads parameters as tensors, and only plain
    numbers from the settings. The run can be evaluated, recorded, served and
    trained further.

    \b
    rlrun import-sb3 ppo.zip --env CartPole-v1
    rlrun import-sb3 sac.zip --env Hopper-v5 --normalization vecnormalize.npz
    """  # noqa: D301 (\b keeps click from rewrapping the paragraph)
    from rlrun.bridges.sb3_import import import_sb3 as imported_from
    from rlrun.experiments.runs.outcome import shown_path
    from rlrun.experiments.spec.load import make_importable

    make_importable(Path.cwd())
    found = imported_from(
        file,
        env,
        runs_dir=runs_dir,
        algorithm=algorithm,
        normalization=normalization,
        overrides=overrides,
        name=name,
    )
    if wants_json():
        print_json({"run": str(found.directory), "algorithm": found.algorithm, "env": found.env})
        return
    path = shlex.quote(shown_path(found.directory))
    echo(f"{path}: {found.algorithm} in {found.env}")
    for sentence in found.remarks:
        echo(f"  {sentence}", err=True)
    if normalization is None and (pickled := _pickled_normalization(file, env)) is not None:
        echo(f"  found {pickled} next to it: if the policy used normalized observations, see --normalization", err=True)
    echo(f"\nrlrun evaluate {path}\nrlrun resume {path}")


def _pickled_normalization(file: Path, env: str) -> Path | None:
    """Finds a pickled `VecNormalize` where SB3's users and rl-zoo3 usually store it; None if there is none."""
    places = (file.parent / "vecnormalize.pkl", file.parent / env / "vecnormalize.pkl")
    return next((place for place in places if place.is_file()), None)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--env", help="For rl-zoo3, the env whose settings are translated; for RLlib, the env to use.")
@click.option("--lenient", is_flag=True, help="Leave out keys without a counterpart, even if they affect learning.")
@click.option(
    "--version",
    type=click.Choice(["0.5", "1.13", "2.5"]),
    help="RLlib version whose defaults apply; default: detected from the file's keys.",
)
@json_option("the spec, both as data and as text,")
def translate(file: Path, env: str | None, lenient: bool, version: str | None) -> None:
    """Translate an RLlib or rl-zoo3 file to a spec, and print it.

    Comments show the line that each value comes from, and list what was changed
    or left out, the largest effect first. A key that affects learning but has no
    counterpart is an error, unless --lenient leaves it out. If the file's env was
    registered in code, name your env with --env.

    \b
    rlrun translate pong-ppo.yaml > pong.yaml
    rlrun translate warehouse.yaml --env my_lab:Warehouse
    rlrun translate hyperparams/ppo.yml --env CartPole-v1
    """  # noqa: D301 (\b keeps click from rewrapping the paragraph)
    from rlrun.bridges.files_of_others import translated_text

    if env is not None and env.startswith("{"):
        raise click.UsageError(
            "--env takes a name, such as my_lab:Warehouse, which becomes the world of a file with `multiagent`; for "
            "other settings of the env, change the printed spec"
        )
    number = None if version is None else tuple(map(int, version.split(".")))
    text = translated_text(file, env=env, lenient=lenient, version=number).rstrip("\n")
    if wants_json():
        import yaml

        print_json({"experiments": yaml.safe_load(text), "text": text})
        return
    echo(text)
