"""``rlrun init --algorithm ALGORITHM --env ENV``: writes a spec to start from."""

from __future__ import annotations

from pathlib import Path

import click

from rlrun.cli.experiments import algorithm_and_env_options
from rlrun.cli.json_document import print_json, wants_json
from rlrun.cli.options import json_option
from rlrun.cli.tables import echo

SCHEMA_FILE = "rlrun.schema.json"
FOR_EDITORS = f"# yaml-language-server: $schema={SCHEMA_FILE}\n"
"""First line of a spec, by which editors with a YAML language server find the schema next to it."""

TEMPLATE = """\
# {algorithm} on {env}. `rlrun train {file}` trains it, `rlrun validate {file}` checks it.
{name}:
  algorithm: {algorithm}  # `rlrun algorithms` lists them
  env: {env}  # or my_module:MyEnv, from this file's folder
  seeds: 1  # use 3 for a reliable result; one trial per seed
  stop: {stop}
  # Other settings keep their defaults; `rlrun config {algorithm} --all` prints and explains them.
  # `lr: {{grid_search: [1.0e-3, 3.0e-4]}}` tries several values, one trial per value.
  config:
{settings}
  {evaluation}evaluation: {{every: 10, episodes: 20}}  # every 10 iterations, and at the end
  # checkpoint: {{every: 10, at_end: true}}
  # expect: {{episode_return_mean: GOAL}}  # the return that `rlrun regress` requires
"""

SETTINGS = ("input", "lr", "gamma", "num_workers", "num_envs_per_worker")
"""The settings that are changed most often."""


@click.command()
@algorithm_and_env_options
@json_option("the file and its text")
def init(algorithm: str | None, env: str | None) -> None:
    """Write a commented spec to the current folder.

    If rlrun ships a spec for ALGORITHM and ENV, that spec is written. ENV is an id, or
    the name of a class of a World or of PettingZoo, or a PettingZoo module. For a multi-agent world with
    arguments, give a YAML mapping: '{pettingzoo: MODULE, kwargs: {...}}'. The env is created
    once; if ALGORITHM cannot learn in it, no spec is written. The first line of the
    spec points editors to a schema; create it with
    `rlrun schema > rlrun.schema.json`.

    \b
    rlrun init --algorithm ppo --env CartPole-v1
    """  # noqa: D301 (\b keeps click from rewrapping the paragraph)
    if algorithm is None or env is None:
        raise click.UsageError("name an algorithm and an env with --algorithm and --env")
    from rlrun.cli.targets import env_named, env_written
    from rlrun.engine.messages.errors import UsageError
    from rlrun.engine.settings.commented_yaml import setting_lines
    from rlrun.engine.settings.registry import BUILT_IN, algorithm_class, known_algorithm
    from rlrun.experiments.launch.checks import check_envs
    from rlrun.experiments.spec.load import default_name, make_importable, parse_experiments, tuned_spec
    from rlrun.experiments.spec.titles import env_title

    algorithm = known_algorithm(algorithm)
    make_importable(Path.cwd())
    written = env_named(env)
    name = default_name(env_title(env_written(written)), algorithm)
    needed = algorithm_class(algorithm).Config.needed if algorithm in BUILT_IN else {}
    to_come = dict.fromkeys(needed, "to come")
    entry = {"algorithm": algorithm, "env": env_written(written), "stop": {"env_steps": 1}, "config": to_come}
    if "input" in needed:
        entry["begins"] = {"after": "another", "recorded": [to_come["input"]]}  # the data set does not exist yet
    experiments = parse_experiments({name: entry}, makes_envs=True)
    file = Path(f"{name}.yaml")
    tuned = tuned_spec(algorithm, env)
    if tuned is not None:
        text = tuned.read_text()
    else:
        config = algorithm_class(algorithm).Config
        check_envs(experiments)
        named = [*dict.fromkeys([*(one for one in SETTINGS if one in config.model_fields), *needed])]
        stop = "{sgd_steps: 20_000}" if algorithm_class(algorithm).clock_unit == "sgd_steps" else "{env_steps: 100_000}"
        settings = "\n".join(setting_lines(config, named, "    "))
        text = TEMPLATE.format(
            name=name,
            algorithm=algorithm,
            env=written,
            file=file,
            stop=stop,
            settings=settings,
            evaluation="# " if experiments[0].env.external is not None else "",  # clients run no evaluation episodes
        )
    try:
        with file.open("x") as stream:
            stream.write(FOR_EDITORS + text)
    except FileExistsError:
        raise UsageError(f"{file} exists; remove it first, or edit it") from None
    if wants_json():
        print_json({"file": str(file), "text": FOR_EDITORS + text})
        return
    echo(f"Wrote {file}. Train it: rlrun train {file}", err=True)
    if not Path(SCHEMA_FILE).exists():
        echo(f"For completion and checks in an editor: rlrun schema > {SCHEMA_FILE}", err=True)
