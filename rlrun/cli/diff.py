"""``rlrun diff A B``: the settings in which two specs, runs or trials differ."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import complete_specs_and_trials, json_option, runs_dir_option
from rlrun.cli.tables import stdout_width, table

if TYPE_CHECKING:
    from rlrun.experiments.spec.difference import Difference


@click.command()
@click.argument("first", metavar="A", shell_complete=complete_specs_and_trials)
@click.argument("second", metavar="B", shell_complete=complete_specs_and_trials)
@runs_dir_option
@json_option("the differences")
def diff(first: str, second: str, runs_dir: Path) -> None:
    """Show the settings in which two specs, runs or trials differ.

    A and B are spec files, runs, or trials of a sweep (RUN/TRIAL). If a file has
    several experiments, write FILE:NAME. Default values are compared too, and
    marked as such. The exit code is 0 even if there are differences.

    \b
    rlrun diff cartpole-ppo cartpole-ppo-2
    rlrun diff my.yaml sweep/003-lr=0.001-seed=0
    """  # noqa: D301 (\b keeps click from rewrapping the paragraph)
    from rlrun.experiments.spec.difference import differences

    found = differences(_entry(first, runs_dir), _entry(second, runs_dir))
    data = {"a": first, "b": second, "differences": [_data(one) for one in found]}
    print_result(data, _text(found, first, second))


def _entry(target: str, runs_dir: Path) -> dict[str, Any]:
    """Entry of a run's or trial's spec, or of a spec file."""
    from rlrun.cli.targets import existing, run_or_trial_named
    from rlrun.experiments.runs.run_directory import RunDirectory
    from rlrun.experiments.spec.difference import entry_of_trial
    from rlrun.experiments.spec.load import spec_files
    from rlrun.experiments.trial.trial_directory import TrialDirectory

    file, _, name = target.partition(":")
    (path, *_) = spec_files([file])
    found = existing(target, runs_dir)
    if path.is_file() and (found is None or found.is_file()):
        return _entry_of_file(path, name)
    directory, trial = run_or_trial_named(target, runs_dir)
    if trial is None:
        return RunDirectory.open(directory).spec()[0]
    return entry_of_trial(TrialDirectory(directory / trial).read_spec())


def _entry_of_file(file: Path, name: str) -> dict[str, Any]:
    """Entry of a named experiment in a spec file; with an empty name, of the only experiment.

    Raises:
        UsageError: There is no such experiment, or there are several.
    """
    from rlrun.engine.messages.errors import UsageError, did_you_mean
    from rlrun.experiments.spec.load import load_experiments

    experiments = {experiment.name: experiment for experiment in load_experiments([file])}
    if name not in experiments and (name or len(experiments) > 1):
        which = f"has no experiment '{name}'{did_you_mean(name, experiments)}" if name else "has several experiments"
        raise UsageError(f"{file} {which}; write {file}:NAME, where NAME is one of {', '.join(experiments)}")
    return (experiments[name] if name else next(iter(experiments.values()))).to_data()


def _text(found: list[Difference], first: str, second: str) -> str:
    if not found:
        return f"{first} and {second} have the same settings"
    rows = [[one.setting, *(value and str(value) for value in (one.first, one.second))] for one in found]
    return table(["setting", first, second], rows, stdout_width())


def _data(one: Difference) -> dict[str, Any]:
    return {
        "setting": one.setting,
        "a": None if one.first is None else asdict(one.first),
        "b": None if one.second is None else asdict(one.second),
    }
