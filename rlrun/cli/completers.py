"""Shell completion of arguments: runs, trials, tags, settings, envs and specs.

The functions are called at each press of the tab key, so imports are lazy, and unreadable files are skipped.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from rlrun.engine.settings.config import ConfigModel

RUNS_VARIABLE = "RLRUN_RUNS"


def complete_algorithms(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion of algorithm names."""
    from rlrun.engine.settings.registry import algorithm_names

    return [name for name in algorithm_names() if name.startswith(incomplete)]


def complete_runs(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion of runs: names in the runs folder, or else directories."""
    from rlrun.cli.targets import run_names

    return _items(run_names(_runs_dir(ctx)), incomplete) or [CompletionItem(incomplete, type="dir")]


def complete_trials(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion of runs and, after a run's name and a slash, of its trials; or else directories."""
    from rlrun.cli.targets import run_names, trial_directories

    run, slash, _ = incomplete.partition("/")
    names = [f"{run}/{trial.name}" for trial in trial_directories(_runs_dir(ctx) / run)] if slash else None
    return _items(run_names(_runs_dir(ctx)) if names is None else names, incomplete) or [
        CompletionItem(incomplete, type="dir")
    ]


def complete_tags(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion of tags: those of the named run, or of all runs if none is named."""
    from rlrun.cli.targets import run_names
    from rlrun.engine.messages.errors import RunDamaged
    from rlrun.experiments.runs.labels import read_labels

    folder = _runs_dir(ctx)
    named = ctx.params.get("run")
    tags: dict[str, None] = {}
    for name in [named] if named else run_names(folder):
        with suppress(RunDamaged):
            tags |= dict.fromkeys(read_labels(folder / name).tags)
    return _items(sorted(tags), incomplete)


def complete_envs(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion of the env ids that are usable on this machine."""
    from rlrun.engine.envs.env_listing import env_names

    return _items((env.id for env in env_names() if env.usable), incomplete)


def complete_specs(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion of specs: YAML files and names of shipped specs; or else files of any kind."""
    return _specs(incomplete) or [CompletionItem(incomplete, type="file")]


def complete_specs_and_trials(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion of targets that have settings: runs, trials and specs; or else files of any kind."""
    named = [item for item in complete_trials(ctx, parameter, incomplete) if item.type == "plain"]
    return [*named, *_specs(incomplete)] or [CompletionItem(incomplete, type="file")]


def complete_settings(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion of ``--set KEY=``: keys of an experiment, including the settings of the named algorithm.

    The algorithm is that of ``--algorithm`` or of the spec files typed so far; if no algorithm is known, only the
    settings common to all algorithms are completed.
    """
    if "=" in incomplete:
        return []
    from rlrun.engine.algorithm_config import AlgorithmConfig
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.settings.registry import algorithm_class
    from rlrun.experiments.spec.experiment import RunSettings

    configs = [algorithm_class(name).Config for name in _algorithms_named(ctx)] or [AlgorithmConfig]
    paths = [
        *_paths(RunSettings),
        *_paths(EnvConfig, "env."),
        *(path for config in configs for path in _paths(config, "config.")),
    ]
    return _items([f"{path}=" for path in dict.fromkeys(paths)], incomplete)


def _paths(model: type[ConfigModel], prefix: str = "") -> Iterator[str]:
    """Yields the dotted paths of all settings of a config class, of nested ones as well."""
    from rlrun.engine.settings.config import config_in
    from rlrun.experiments.spec.stop_config import StopConfig

    for name, field in model.model_fields.items():
        inner = config_in(field.annotation)
        if inner is StopConfig:
            yield from (f"{prefix}{name}.{metric}" for metric in ("env_steps", "sgd_steps", "episode_return_mean"))
        elif inner is not None and inner is not model:
            yield from _paths(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _algorithms_named(ctx: click.Context) -> list[str]:
    """Names of built-in algorithms on the command line so far, by ``--algorithm`` or in spec files."""
    from rlrun.engine.messages.errors import RlrunError
    from rlrun.engine.settings.registry import algorithm_names
    from rlrun.experiments.spec.load import spec_files
    from rlrun.experiments.spec.yaml_source import read_document

    named = [ctx.params.get("algorithm")]
    words = ctx.args  # arguments, since click takes them for no parameter before an option without its value
    for path in spec_files([*words, *(ctx.params.get("specs") or ()), *(ctx.params.get("files") or ())]):
        with suppress(RlrunError, OSError):
            named += [entry.get("algorithm") for entry in read_document(path).data.values() if isinstance(entry, dict)]
    return [name for name in algorithm_names() if name in named]


def _specs(incomplete: str) -> list[CompletionItem]:
    from rlrun.experiments.spec.load import shipped_configs

    files = sorted(path for end in ("yaml", "yml") for path in glob.glob(f"{glob.escape(incomplete)}*.{end}"))
    return _items([*files, *(f"{path.parent.name}/{path.stem}" for path in shipped_configs())], incomplete)


def _runs_dir(ctx: click.Context) -> Path:
    return Path(ctx.params.get("runs_dir") or os.environ.get(RUNS_VARIABLE) or "runs")


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
