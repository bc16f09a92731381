"""``rlrun import-sb3 ZIP --env ID``: a policy of Stable-Baselines3 as a run."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from rlrun.cli.completers import complete_envs
from rlrun.cli.options import json_option, runs_dir_option, set_option
from rlrun.cli.terminal import echo


@click.command("import-sb3")
@click.argument("file", metavar="ZIP", type=click.Path(path_type=Path))
@click.option(
    "--env", required=True, shell_complete=complete_envs, help="Env that the policy acts in, such as CartPole-v1."
)
@click.option(
    "--algorithm",
    type=click.Choice(["ppo", "a2c", "dqn", "sac", "td3"]),
    help="Algorithm; default: recognised by the names of the parameters.",
)
@click.option(
    "--normalization", type=click.Path(path_type=Path), metavar="NPZ", help="Numbers of the policy's VecNormalize."
)
@click.option("--name", help="Name the run; the default is that of the env and the algorithm.")
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
    """Import a policy that Stable-Baselines3 saved, as a run.

    ZIP is what model.save of PPO, A2C, DQN, SAC or TD3 wrote. Nothing in it is
    run: parameters are read as tensors, and settings as far as they are plain
    numbers. The run can be evaluated, recorded, served and trained further.

    \b
    rlrun import-sb3 ppo.zip --env CartPole-v1
    rlrun import-sb3 sac.zip --env Hopper-v5 --normalization vecnormalize.npz
    """  # noqa: D301 (click's mark for a paragraph that stays as it is)
    from rlrun.bridges.sb3_import import import_sb3 as imported_from
    from rlrun.cli.json_document import print_json, wants_json
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
        echo(f"  {pickled} is next to it: if the policy had normalised observations, see --normalization", err=True)
    echo(f"\nrlrun evaluate {path}\nrlrun resume {path}")


def _pickled_normalization(file: Path, env: str) -> Path | None:
    """The file of a `VecNormalize` where SB3's users and rl-zoo3 put it, None if there is none."""
    places = (file.parent / "vecnormalize.pkl", file.parent / env / "vecnormalize.pkl")
    return next((place for place in places if place.is_file()), None)
