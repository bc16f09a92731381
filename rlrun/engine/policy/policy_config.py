"""Interface of the settings that all policies read."""

from __future__ import annotations

from typing import Protocol

from rlrun.engine.nn.model_config import ModelConfig


class PolicyConfig(Protocol):
    """Interface of the settings that all policies read; every `AlgorithmConfig` implements it."""

    @property
    def model(self) -> ModelConfig:
        """Settings of the policy's network."""

    @property
    def normalize_observations(self) -> bool:
        """Whether observations are normalized by their running mean and variance."""

    @property
    def value_heads(self) -> tuple[str, ...]:
        """Names of the additional reward streams, such as intrinsic rewards; each has a value head."""
