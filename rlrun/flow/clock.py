"""The clock of a trainee: how far learning has come, and the settings that follow it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from rlrun.functional.schedules import value_at, values_at

if TYPE_CHECKING:
    from rlrun.config import Schedule
    from rlrun.flow.collecting_workers import CollectedSteps
    from rlrun.learner.learner import Learner

ClockUnit = Literal["env_steps", "sgd_steps"]
"""What a clock counts: steps of the world, or minibatches where experience is not collected but given."""


class Clock:
    """Scheduled settings and the counter that they and the iterations follow.

    Args:
        schedules: Settings that change over a run, by name; learning rates among them.
        counts: Where env steps are counted.
        start_learner: Returns the learner whose minibatches count.
        unit: The counter that schedules and iterations follow.
        fixed: Settings that others schedule and that have one value here, by name.

    Attributes:
        schedules: Settings that change over a run, by name; they may be replaced between two updates.
        fixed: Settings that others schedule and that have one value here, by name.
        unit: The counter that schedules and iterations follow.
    """

    def __init__(
        self,
        schedules: Mapping[str, Schedule],
        counts: CollectedSteps,
        start_learner: Callable[[], Learner],
        unit: ClockUnit = "env_steps",
        fixed: Mapping[str, Schedule] | None = None,
    ) -> None:
        self.schedules: dict[str, Schedule] = dict(schedules)
        self.fixed: Mapping[str, Schedule] = fixed or {}
        self.unit: ClockUnit = unit
        self._counts = counts
        self._start_learner = start_learner
        self._began_at = self._env_steps_began_at = 0

    def begin_iteration(self) -> None:
        """Notes that an iteration begins now."""
        self._began_at, self._env_steps_began_at = self.steps, self.env_steps

    @property
    def steps_this_iteration(self) -> int:
        """Steps of the clock's unit since the iteration began."""
        return self.steps - self._began_at

    @property
    def env_steps_this_iteration(self) -> int:
        """Env steps since the iteration began."""
        return self.env_steps - self._env_steps_began_at

    @property
    def steps(self) -> int:
        """Steps of the clock's unit so far."""
        return self.env_steps if self.unit == "env_steps" else self._start_learner().sgd_steps

    @property
    def env_steps(self) -> int:
        """Env steps so far."""
        return self._counts.env_steps

    def value(self, name: str) -> float:
        """Returns the present value of a scheduled setting."""
        return value_at(self.schedules[name], self.steps)

    def scheduled(self) -> dict[str, float]:
        """Returns the present values of all scheduled settings by name, and of those that are fixed here."""
        return values_at({**self.fixed, **self.schedules}, self.steps)
