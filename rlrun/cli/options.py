"""Shared command-line options with a uniform meaning in all commands, and shell completion of arguments.

Completion functions run each time the user presses Tab, so their imports are lazy, and unreadable files are skipped.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem
from typing_extensions import override

from rlrun.engine.data.action_kind import ACTION_KINDS

if TYPE_CHECKING:
    from rlrun.engine.settings.config import ConfigModel


RUNS_VARIABLE = "RLRUN_RUNS"


def complete_algorithms(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion of algorithm names."""
    from rlrun.engine.settings.registry import algorithm_names

    return [name for name in algorithm_names() if name.startswith(incomplete)]


def complete_runs(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion of runs: names in the runs folder, or directories if no name matches."""
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
    """Shell completion of tags: the named run's tags, or the tags of all runs if none is named."""
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

    The algorithm is taken from ``--algorithm`` or the spec files typed so far; if no algorithm is known, only the
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
    """Yields the dotted paths of all settings of a config class, including nested ones."""
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
    words = ctx.args  # if an option still lacks its value, click has left the words here
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


Command = TypeVar("Command", bound=Callable[..., Any])


class OutputFile(click.Path):
    """Click parameter type for an output file; before any work is done, rejects a path whose folder is missing.

    Args:
        or_folder: Whether the option may also name a folder.
    """

    def __init__(self, *, or_folder: bool = False) -> None:
        super().__init__(dir_okay=or_folder, path_type=Path)

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        folder = Path(os.fsdecode(path)).absolute().parent
        if not folder.is_dir():
            self.fail(f"the folder {folder} does not exist", param, ctx)
        return path


runs_dir_option = click.option(
    "--runs-dir",
    type=click.Path(file_okay=False, path_type=Path),
    envvar=RUNS_VARIABLE,
    default=Path("runs"),
    show_default=f"${RUNS_VARIABLE} or ./runs",
    help="Folder that contains the runs.",
)
"""Command decorator: option ``--runs-dir``, the folder that holds the runs."""

set_option = click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    shell_complete=complete_settings,
    help="Override a value in every experiment, such as config.lr=1e-3; may be given several times.",
)
"""Command decorator: option ``--set a.b=c``, which overrides values of the spec files."""

machine_option = click.option(
    "--machine",
    help="Use this entry of the spec's `machines`, such as cluster; short for --set machine=cluster.",
)
"""Command decorator: option ``--machine``, which chooses among the `machines` of a spec."""

axis_option = click.option(
    "--x",
    "axis",
    type=click.Choice(["env_steps", "sgd_steps", "time"]),
    help="Horizontal axis of curves: steps, or seconds of training. Default: env_steps, or sgd_steps if one of "
    "the runs learns only from data.",
)
"""Command decorator: option ``--x``, the horizontal axis of curves."""


def progress_options(command: Command) -> Command:
    """Command decorator that adds ``--progress`` and ``--quiet``, which choose how a run's progress is displayed."""
    progress = click.option(
        "--progress",
        type=click.Choice(["lines", "json"]),
        help="Show progress as lines on stderr, or as one JSON object per line on stdout; default: a live display in "
        "a terminal, else "
        "lines.",
    )
    quiet = click.option("-q", "--quiet", is_flag=True, help="Show only results and errors, no progress.")
    return progress(quiet(command))


tag_option = click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_tags,
    help="Tag for finding the run again; may be given several times.",
)
"""Command decorator: repeatable option ``--tag NAME``, tags of a run."""

note_option = click.option("--note", metavar="TEXT", help="A note on the run, shown in lists and reports.")
"""Command decorator: option ``--note TEXT``, the note on a run."""

max_trials_option = click.option(
    "--max-trials",
    type=click.IntRange(min=1),
    metavar="N",
    help="Refuse experiments with more than N trials (10,000 by default).",
)
"""Command decorator: option ``--max-trials N``, the number of trials above which a sweep is refused."""

actions_option = click.option(
    "--actions",
    type=click.Choice(ACTION_KINDS),
    help="Use greedy or sampled actions; default: as in the run's evaluations.",
)
"""Command decorator: option ``--actions``, whether a saved policy acts greedily or samples its actions."""

trust_option = click.option(
    "--trust", is_flag=True, help="Trust a run from someone else: allow the code, files and services it uses."
)
"""Command decorator: flag ``--trust``, which allows code and files that an untrusted checkpoint or run names."""

executor_option = click.option(
    "--executor",
    type=click.Choice(["local", "ray"]),
    help="How to run trials; default: local for a single trial without workers, else ray.",
)
"""Command decorator: option ``--executor``, which runs trials in this process or under Ray Tune."""

resume_option = click.option(
    "--resume", "resumes", is_flag=True, help="Continue the run with this name, or start it if it does not exist."
)
"""Command decorator: flag ``--resume``, with which a command may be repeated until its runs are complete."""

retry_failed_option = click.option("--retry-failed", is_flag=True, help="Also resume failed trials.")
"""Command decorator: flag ``--retry-failed``, which resumes failed trials."""

shard_option = click.option(
    "--shard",
    metavar="I/N",
    help="Split the trials into N shards and train only shard I, counting from 0; other processes train the others.",
)
"""Command decorator: option ``--shard I/N``, with which several processes without Ray share the trials of a run."""

address_option = click.option(
    "--address", help="Join the Ray cluster at this address; `auto` joins the cluster that this node belongs to."
)
"""Command decorator: option ``--address``, a Ray cluster to join."""

wait_for_nodes_option = click.option(
    "--wait-for-nodes",
    "wait_for_nodes_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="With --address: how long to wait if no node has room for a trial. Default: 900, or 0 if the cluster has no "
    "autoscaler.",
)
"""Command decorator: option ``--wait-for-nodes SECONDS``, how long a run waits for a cluster to grow."""

mode_option = click.option(
    "--mode",
    type=click.Choice(["max", "min"]),
    help="Whether higher or lower values of the metric are better; default: the mode of the run's scheduler, else max.",
)
"""Command decorator: option ``--mode``, whether a metric is maximized or minimized."""


def metric_options(command: Command) -> Command:
    """Command decorator that adds the options ``--metric`` and ``--mode``, by which trials are ranked."""
    metric = click.option(
        "--metric", help="Metric that ranks the trials; default: the metric of the run's scheduler or best checkpoint."
    )
    return metric(mode_option(command))


def json_option(what: str) -> Callable[[Command], Command]:
    """Creates a decorator that adds the flag ``--json`` to a command; `print_result` then prints JSON instead of text.

    Args:
        what: What the command prints, such as "the runs", for the help text.
    """
    help_text = f"Print {what} as JSON on stdout, and nothing else."
    return click.option("--json", is_flag=True, expose_value=False, help=help_text)


def spec_files_option(command: Command) -> Command:
    """Command decorator that adds the repeatable option ``-f FILE``, which names spec files."""
    option = click.option(
        "-f",
        "--file",
        "files",
        type=click.Path(path_type=Path),  # rlrun, not click, reports files that cannot be read
        multiple=True,
        shell_complete=complete_specs,
        help="Spec file (YAML), or a folder of spec files; may be given several times.",
    )
    return option(command)
