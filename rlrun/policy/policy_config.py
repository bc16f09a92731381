"""Settings that every policy family reads."""

from __future__ import annotations

from typing import Protocol

from rlrun.nn.model_config import ModelConfig
from rlrun.policy.reward_streams import RewardStreams


class PolicyConfig(Protocol):
    """The part of an algorithm's settings that every policy family reads; every `AlgorithmConfig` has it."""

    @property
    def model(self) -> ModelConfig:
        """The network."""

    @property
    def normalize_observations(self) -> bool:
        """Whether observations are shifted and scaled."""

    @property
    def reward_streams(self) -> RewardStreams:
        """Streams of rewards, each of which has a value head."""
