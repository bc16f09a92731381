"""What a spec says of one policy of a world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import SerializeAsAny, field_serializer

from rlrun.algorithm import Algorithm
from rlrun.algorithm_config import SAMPLING, AlgorithmConfig
from rlrun.config import ConfigModel, NonEmptyText, PositiveInt
from rlrun.registry import algorithm_class


class PolicySpec(ConfigModel):
    """One policy of a world: how it learns, and for how many agents it acts."""

    algorithm: NonEmptyText
    """Name or import path of its algorithm."""
    config: SerializeAsAny[AlgorithmConfig]
    """Settings of the algorithm. How experience is collected is the world's, whatever they say of it."""
    slots: PositiveInt | None = None
    """Most agents that it acts for in each world at a time; null for as many as the world's possible agents that are
    its."""

    @field_serializer("config")
    def _without_unsaid_sampling(self, config: AlgorithmConfig) -> dict[str, Any]:
        fields = type(config).model_fields
        sampling = [name for name in SAMPLING if name in fields]
        unsaid = {name for name in sampling if getattr(config, name) == fields[name].default}
        return config.model_dump(mode="json", exclude=unsaid)

    @classmethod
    def from_data(cls, data: Mapping[str, Any], *, path: str = "") -> Self:
        """Makes one from what `to_data` returned, here or in an earlier version.

        Args:
            data: Plain data.
            path: Where it stands, put before the path of each problem.

        Raises:
            SpecError: If the data is not valid.
            UsageError: If there is no such algorithm.
        """
        config = algorithm_class(str(data["algorithm"])).Config.parse_earlier(data["config"], path=f"{path}.config")
        return cls.parse({**data, "config": config}, path=path)

    def learns_by(self) -> Algorithm[Any]:
        """Returns the algorithm with these settings."""
        algorithm: Algorithm[Any] = algorithm_class(self.algorithm)(self.config)
        return algorithm
