"""Drop in return when training switches to its next stage: evaluations before and after the switch."""

from __future__ import annotations

from dataclasses import dataclass

from rlrun.engine.messages.errors import RlrunError
from rlrun.report.reading import EVALUATION_METRIC, RunView, axis_of, read_run

FIRST = 3
"""Number of evaluations after a switch that are compared with the last one before it."""


@dataclass(frozen=True)
class Switch:
    """Evaluations of one seed before and after a switch to a new stage.

    Attributes:
        trial: Name of the trial after the switch.
        before: Mean return of the last evaluation in the previous stage.
        lowest: Lowest mean return among the first `FIRST` evaluations after the switch.
        regained_at: Steps of the new stage at its first evaluation that is as good as `before`; None if there is none
            yet.
    """

    trial: str
    before: float
    lowest: float
    regained_at: float | None

    @property
    def drop(self) -> float:
        """Drop in return at the switch; negative if the return rises."""
        return self.before - self.lowest


def switches(run: RunView) -> list[Switch]:
    """Stage switches, one per seed, of a run that continues another run; [] unless both runs have evaluations."""
    if run.table.after is None:
        return []
    try:
        earlier = read_run(run.path.parent / run.table.after, [EVALUATION_METRIC])
    except RlrunError:  # the earlier run was moved or deleted
        return []
    ends = {trial.seed: trial.final(EVALUATION_METRIC) for trial in earlier.trials}
    axis = axis_of([run], None)
    found = []
    for trial in run.trials:
        steps, values = trial.points(EVALUATION_METRIC, axis)
        before = ends.get(trial.seed)
        if before is not None and len(values):
            regained = steps[values >= before]
            at = float(regained[0]) if len(regained) else None
            found.append(Switch(trial.name, before, float(values[:FIRST].min()), at))
    return found
