"""Description of one policy in a multi-agent env, from the spec: its algorithm and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import SerializeAsAny, field_serializer

from rlrun.engine.algorithm import Algorithm
from rlrun.engine.algorithm_config import SAMPLING, AlgorithmConfig
from rlrun.engine.settings.config import ConfigModel, NonEmptyText, PositiveInt
from rlrun.engine.settings.registry import algorithm_class


class PolicySpec(ConfigModel):
    """Description of one policy in a multi-agent env: algorithm, settings and maximum number of simultaneous agents."""

    algorithm: NonEmptyText
    """Name or import path of the policy's algorithm."""
    config: SerializeAsAny[AlgorithmConfig]
    """Settings of the algorithm; sampling settings are ignored in favor of the world's."""
    slots: PositiveInt | None = None
    """Maximum number of the policy's agents in a world at a time; null for the number of possible agents that are
    mapped to it."""

    @field_serializer("config")
    def _without_unset_sampling(self, config: AlgorithmConfig) -> dict[str, Any]:
        fields = type(config).model_fields
        sampling = [name for name in SAMPLING if name in fields]
        unsaid = {name for name in sampling if getattr(config, name) == fields[name].default}
        return config.model_dump(mode="json", exclude=unsaid)

    @classmethod
    def from_data(cls, data: Mapping[str, Any], *, path: str = "") -> Self:
        """Creates a policy's description from plain data, after validating it.

        Args:
            data: Plain data.
            path: Path of the policy in the spec, with which error messages begin.

        Raises:
            SpecError: The data is not valid.
            UsageError: There is no such algorithm.
        """
        config = algorithm_class(str(data["algorithm"])).Config.parse(data["config"], path=f"{path}.config")
        return cls.parse({**data, "config": config}, path=path)

    def learns_by(self) -> Algorithm[Any]:
        """Creates the algorithm that the spec names, with its settings."""
        algorithm: Algorithm[Any] = algorithm_class(self.algorithm)(self.config)
        return algorithm
