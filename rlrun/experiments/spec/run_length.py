"""Schedules relative to the run's length: ``end`` in ``[[0, 1.0e-3], [end, 0]]`` is the stop criterion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlrun.engine.messages.explain import Location, Mistake

END = "end"
"""Keyword in schedules for the number of steps at which the run stops: its stop criterion."""


def with_run_length(config: Any, stop: Any, unit: str, where: Location = ("config",)) -> tuple[Any, list[Mistake]]:
    """Replaces ``end`` in schedules by the run's length.

    Args:
        config: Settings as written; search spaces may hold schedules.
        stop: The experiment's stop criteria as written.
        unit: The unit of schedules, `env_steps` or `sgd_steps`.
        where: Location of the settings in the entry.

    Returns:
        The settings, and a mistake for each ``end`` if the run's length is not known.

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
            message = f"'{END}' is the length of the run: it needs a number under stop.{unit}"
            mistakes.append(Mistake((*where, *location, 0), message))
            return [2**53, value[1]]  # after every other point, so that this is its only mistake
        return [resolved(item, (*location, index)) for index, item in enumerate(value)]

    return resolved(config, ()), mistakes


def env_steps_at_stop(stop: float, per_update: int, per_iteration: int) -> int:
    """Number of env steps at which a run ends: the stop criterion rounded up to whole updates and iterations.

    Args:
        stop: Env steps of the stop criterion.
        per_update: Env steps between two updates.
        per_iteration: Minimum of env steps per iteration.

    Examples:
        >>> env_steps_at_stop(400, per_update=256, per_iteration=1000), env_steps_at_stop(512, 256, 0)
        (1024, 512)
    """
    iteration = max(1, math.ceil(per_iteration / per_update)) * per_update
    return math.ceil(stop / iteration) * iteration
