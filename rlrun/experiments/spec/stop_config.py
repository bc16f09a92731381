"""Stop criteria for a trial: bounds on metrics, and a plateau of a metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from rlrun.engine.messages.explain import Location, Mistake
from rlrun.engine.settings.config import ConfigModel, NonEmptyText, NonNegativeFloat, PositiveInt
from rlrun.engine.settings.metric import Mode

END = "end"
"""Keyword in schedules for the number of steps at which the run stops: its stop criterion."""

PLATEAU = "plateau"
"""Key of the plateau criterion among the bounds, and first word of its stop reason."""


class PlateauConfig(ConfigModel):
    """Settings for stopping at a plateau, when a metric no longer improves."""

    metric: NonEmptyText
    """Metric that should improve, such as evaluation/episode_return_mean."""
    mode: Mode | None = None
    """Whether higher (max) or lower (min) is better; null for the metric's own direction."""
    patience: PositiveInt = 5
    """Number of consecutive evaluations without improvement (or results, if there are no evaluations) after which the
    trial stops."""
    min_delta: NonNegativeFloat = 0.0
    """Minimum change that counts as an improvement."""


class StopConfig(ConfigModel):
    """Stop criteria, such as ``{env_steps: 100_000, episode_return_mean: 475}``: the first one reached ends a trial."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float] = Field(init=False)

    plateau: PlateauConfig | None = None
    """Plateau of a metric at which the trial stops; null for none."""

    @model_validator(mode="after")
    def _require_criterion(self) -> Self:
        if not self.bounds and self.plateau is None:
            raise ValueError("needs at least one metric; add, for example, env_steps: 100_000")
        return self

    @property
    def bounds(self) -> dict[str, float]:
        """Bounds at which the trial stops, by metric."""
        return dict(self.__pydantic_extra__)

    @model_serializer(mode="wrap")
    def _without_absent(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}


def with_run_length(config: Any, stop: Any, unit: str, where: Location = ("config",)) -> tuple[Any, list[Mistake]]:
    """Replaces ``end`` in schedules with the run's length, taken from the stop criteria.

    Args:
        config: Settings as written; search spaces may hold schedules.
        stop: The experiment's stop criteria as written.
        unit: The unit of schedules, `env_steps` or `sgd_steps`.
        where: Location of the settings in the entry.

    Returns:
        The settings, and one mistake per ``end`` if the run's length is not known.

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
            message = f"'{END}' means the length of the run, so stop.{unit} must be a number"
            mistakes.append(Mistake((*where, *location, 0), message))
            return [2**53, value[1]]  # later than any other point, to avoid a second mistake
        return [resolved(item, (*location, index)) for index, item in enumerate(value)]

    return resolved(config, ()), mistakes


def env_steps_at_stop(stop: float, per_update: int, per_iteration: int) -> int:
    """Number of env steps at which a run actually ends: its stop criterion rounded up to whole updates and iterations.

    Args:
        stop: Number of env steps in the stop criterion.
        per_update: Number of env steps between two updates.
        per_iteration: Minimum number of env steps per iteration.

    Examples:
        >>> env_steps_at_stop(400, per_update=256, per_iteration=1000), env_steps_at_stop(512, 256, 0)
        (1024, 512)
    """
    iteration = max(1, math.ceil(per_iteration / per_update)) * per_update
    return math.ceil(stop / iteration) * iteration
