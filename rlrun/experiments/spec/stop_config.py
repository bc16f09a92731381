"""Stop criteria of a trial: bounds of metrics, and a plateau of one."""

from __future__ import annotations

from typing import Any, Self

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from rlrun.engine.settings.config import ConfigModel, NonEmptyText, NonNegativeFloat, PositiveInt
from rlrun.engine.settings.metric import Mode

PLATEAU = "plateau"
"""Key of a plateau among the bounds, and the beginning of its reason to stop."""


class PlateauConfig(ConfigModel):
    """Settings of stopping at a plateau: a metric that no longer improves."""

    metric: NonEmptyText
    """Metric that should improve, such as evaluation/episode_return_mean."""
    mode: Mode | None = None
    """Whether higher values of the metric are better (max) or lower ones (min); null for what the metric declares."""
    patience: PositiveInt = 5
    """Number of evaluations in a row without improvement after which the trial stops; of results in a trial without
    evaluations."""
    min_delta: NonNegativeFloat = 0.0
    """Least change beyond the best value that counts as an improvement."""


class StopConfig(ConfigModel):
    """Stop criteria, such as ``{env_steps: 100_000, episode_return_mean: 475}``: the trial stops at the first one."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float] = Field(init=False)

    plateau: PlateauConfig | None = None
    """Plateau of a metric at which the trial stops; null for none."""

    @model_validator(mode="after")
    def _require_criterion(self) -> Self:
        if not self.bounds and self.plateau is None:
            raise ValueError("needs at least one metric; add for instance env_steps: 100_000")
        return self

    @property
    def bounds(self) -> dict[str, float]:
        """Value of each metric at which the trial stops."""
        return dict(self.__pydantic_extra__)

    @model_serializer(mode="wrap")
    def _without_absent(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}
