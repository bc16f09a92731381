"""Step counters of a policy in training, and the schedules (such as learning rate decay) that follow them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

from rlrun.engine.settings.schedules import value_at, values_at

if TYPE_CHECKING:
    from rlrun.engine.learner.learner import Learner
    from rlrun.engine.rollout.counts import RolloutCounts
    from rlrun.engine.settings.config import Schedule

ClockUnit = Literal["env_steps", "sgd_steps"]
"""Unit of a clock: env steps, or SGD steps for training on given data."""


class Clock:
    """Counts the steps of a policy in training, and evaluates its scheduled settings at these counts.

    Args:
        schedules: Schedule of each scheduled setting, such as a learning rate, by the setting's name.
        counts: Counters of received rollouts, such as the number of env steps.
        start_learner: Function that returns the learner whose SGD steps are counted, and creates it at the first
            call.
        unit: The counter that schedules and iterations follow: env steps or SGD steps.
        fixed: Settings, by name, that are constant in this training run but may be scheduled in others.

    Attributes:
        schedules: Schedule of each scheduled setting; may be replaced between two updates.
        fixed: Settings, by name, that are constant in this training run but may be scheduled in others.
        unit: The counter that schedules and iterations follow: env steps or SGD steps.
        counts: Counters of received rollouts, such as the number of env steps.
    """

    def __init__(
        self,
        schedules: Mapping[str, Schedule],
        counts: RolloutCounts,
        start_learner: Callable[[], Learner],
        unit: ClockUnit = "env_steps",
        fixed: Mapping[str, Schedule] | None = None,
    ) -> None:
        self.schedules: dict[str, Schedule] = dict(schedules)
        self.fixed: Mapping[str, Schedule] = fixed or {}
        self.unit: ClockUnit = unit
        self.counts = counts
        self._start_learner = start_learner
        self._began_at = self._env_steps_began_at = 0
        self._evaluated: tuple[int | None, Mapping[str, Schedule], dict[str, float]] | None = None

    def begin_iteration(self) -> None:
        """Resets the numbers of steps since the start of the iteration to 0."""
        self._began_at, self._env_steps_began_at = self.steps, self.env_steps

    @property
    def steps_this_iteration(self) -> int:
        """Number of steps since the iteration began, in the unit that schedules follow: env steps or SGD steps."""
        return self.steps - self._began_at

    @property
    def env_steps_this_iteration(self) -> int:
        """Number of env steps taken since the iteration began."""
        return self.env_steps - self._env_steps_began_at

    @property
    def steps(self) -> int:
        """Number of steps so far, in the unit that schedules follow: env steps or SGD steps."""
        return self.counts.env_steps if self.unit == "env_steps" else self._start_learner().sgd_steps

    @property
    def env_steps(self) -> int:
        """Number of env steps taken so far."""
        return self.counts.env_steps

    def value(self, name: str) -> float:
        """Returns the value of a scheduled setting, such as a learning rate, at the current step."""
        return value_at(self.schedules[name], self.steps)

    def scheduled(self) -> dict[str, float]:
        """Returns the current values of all scheduled and fixed settings by name.

        Calls at the same step return the same dict object, and so do all calls if every setting is constant.
        """
        latest = self._evaluated
        if latest is None or latest[1] != self.schedules or not (latest[0] is None or latest[0] == self.steps):
            of_all, steps = {**self.fixed, **self.schedules}, self.steps
            is_constant = all(isinstance(schedule, int | float) for schedule in of_all.values())
            latest = None if is_constant else steps, dict(self.schedules), values_at(of_all, steps)
            self._evaluated = latest
        return latest[2]
