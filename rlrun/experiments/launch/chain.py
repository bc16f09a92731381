"""Chains of runs, for experiments with several stages: each run starts from the final weights of the previous run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rlrun.engine.messages.errors import RunDamaged, UsageError
from rlrun.experiments.runs.run_directory import RUN_FILE, RunDirectory
from rlrun.experiments.spec.experiment import TrialSpec


def following(run: RunDirectory) -> Iterator[RunDirectory]:
    """Yields the runs of later stages that continue, directly or indirectly, from a given run in the same folder."""
    siblings = []
    for path in sorted(run.path.parent.glob(f"*/{RUN_FILE}")):
        with suppress(UsageError, RunDamaged):  # another run may be damaged
            siblings.append(RunDirectory.open(path.parent))
    names = [run.path.name]
    for name in names:  # the loop appends to this list
        for sibling in siblings:
            if sibling.table.after == name and sibling.path.name not in names:
                names.append(sibling.path.name)
                yield sibling


def initialize_from_run(run: RunDirectory, trials: list[TrialSpec]) -> None:
    """Makes each trial of a run start from the final weights that its seed reached in the previous stage's run.

    A trial that has started before keeps its initial checkpoint, even if both runs have been moved or fetched since.

    Args:
        run: The run; nothing is done if its stage is the first or the only one.
        trials: The trials to run; a trial whose seed failed in the previous run is recorded as failed, and removed from
            the list.

    Raises:
        UsageError: The previous run does not exist, or has not ended.
    """
    if run.table.after is None:
        return
    earlier = RunDirectory.open(run.path.parent / run.table.after)
    ends = {trial.seed: trial for trial in earlier.results()}
    for trial in list(trials):
        record, end = run.record(trial.name), ends[trial.seed]
        takes_weights = trial.begins is None or trial.begins.weights
        if record.from_checkpoint is not None:  # it has started before, perhaps on another machine
            start = Path(record.from_checkpoint)
            here = earlier.trial_directory(end.name).checkpoints / start.name
            if not start.exists() and here.exists():
                run.trial_directory(trial.name).write_record(replace(record, from_checkpoint=str(here)))
            continue
        if end.status == "ERROR":
            run.mark(trial.name, "ERROR", f"it starts from the final state of {earlier.path / end.name}, which failed")
            trials.remove(trial)
        elif end.status != "TERMINATED" or (end.checkpoint is None and takes_weights):
            lacks = f"has not finished: run `rlrun resume {earlier.path}`" if end.checkpoint else "has no checkpoint"
            raise UsageError(
                f"{run.path / trial.name} starts from the final state of {earlier.path / end.name}, which {lacks}"
            )
        elif takes_weights:
            begun = replace(record, from_checkpoint=str(end.checkpoint))
            run.trial_directory(trial.name).write_record(begun)
