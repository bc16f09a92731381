"""The clock of a trainee: how far learning has come, and the settings that follow it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rlrun.functional.schedules import value_at, values_at

if TYPE_CHECKING:
    from rlrun.config import Schedule
    from rlrun.rollout.worker_set import WorkerSet


class Clock:
    """Scheduled settings and the env steps that they follow.

    Args:
        schedules: Settings that change over a run, by name; learning rates among them.
        workers: Whose env steps count.

    Attributes:
        schedules: Settings that change over a run, by name; they may be replaced between two updates.
    """

    def __init__(self, schedules: Mapping[str, Schedule], workers: WorkerSet) -> None:
        self.schedules: dict[str, Schedule] = dict(schedules)
        self._workers = workers
        self._began_at = 0

    def begin_iteration(self) -> None:
        """Notes that an iteration begins at the present env steps."""
        self._began_at = self.env_steps

    @property
    def env_steps_this_iteration(self) -> int:
        """Env steps since the iteration began."""
        return self.env_steps - self._began_at

    @property
    def env_steps(self) -> int:
        """Env steps so far."""
        return self._workers.env_steps

    def value(self, name: str) -> float:
        """Returns the present value of a scheduled setting."""
        return value_at(self.schedules[name], self.env_steps)

    def scheduled(self) -> dict[str, float]:
        """Returns the present values of all scheduled settings by name."""
        return values_at(self.schedules, self.env_steps)
