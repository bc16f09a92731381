"""Schedules that follow the length of the run: ``end`` in ``[[0, 1.0e-3], [end, 0]]`` is where it stops."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlrun.explain import Location, Mistake

END = "end"
"""What stands for the number of steps at which the run stops."""


def with_run_length(config: Any, stop: Any, unit: str, where: Location = ("config",)) -> tuple[Any, list[Mistake]]:
    """Puts the run's length where a schedule says ``end``.

    Args:
        config: Settings as they are written; search spaces may hold schedules.
        stop: The experiment's stop criteria as they are written.
        unit: The criterion that schedules count, `env_steps` or `sgd_steps`.
        where: Where the settings stand in the entry.

    Returns:
        The settings, and a mistake for each ``end`` of a run whose length is not known.

    Examples:
        >>> with_run_length({"lr": [[0, 1e-3], ["end", 0]]}, {"env_steps": 5000}, "env_steps")
        ({'lr': [[0, 0.001], [5000, 0]]}, [])
    """
    length = stop.get(unit) if isinstance(stop, Mapping) else None
    known = isinstance(length, int | float) and not isinstance(length, bool)
    mistakes: list[Mistake] = []

    def resolved(value: Any, location: Location) -> Any:
        if isinstance(value, Mapping):
            return {key: resolved(item, (*location, key)) for key, item in value.items()}
        if not isinstance(value, list):
            return value
        if len(value) == 2 and value[0] == END and not isinstance(value[1], str):
            if known:
                return [length, value[1]]
            told = f"'{END}' is the length of the run: it needs a number under stop.{unit}"
            mistakes.append(Mistake((*where, *location, 0), told))
            return [2**53, value[1]]  # behind every other point, so that nothing else is told of it
        return [resolved(item, (*location, index)) for index, item in enumerate(value)]

    return resolved(config, ()), mistakes


def env_steps_at_stop(stop: float, per_update: int, per_iteration: int) -> int:
    """Returns the env steps at which a run ends: it stops at the end of an iteration, which is a number of updates.

    Args:
        stop: Env steps at which it is to stop.
        per_update: Env steps that are collected between two turns of learning.
        per_iteration: Fewest env steps of an iteration.

    Examples:
        >>> env_steps_at_stop(400, per_update=256, per_iteration=1000), env_steps_at_stop(512, 256, 0)
        (1024, 512)
    """
    iteration = max(1, math.ceil(per_iteration / per_update)) * per_update
    return math.ceil(stop / iteration) * iteration
