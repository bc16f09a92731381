"""Protocol of the settings that all policy families have."""

from __future__ import annotations

from typing import Protocol

from rlrun.engine.nn.model_config import ModelConfig


class PolicyConfig(Protocol):
    """Protocol of the settings that all policy families read; every `AlgorithmConfig` implements this protocol."""

    @property
    def model(self) -> ModelConfig:
        """Network settings."""

    @property
    def normalize_observations(self) -> bool:
        """Whether observations are normalised by running statistics."""

    @property
    def value_heads(self) -> tuple[str, ...]:
        """Names of the additional reward streams, each with a value head."""
