"""Uniformly random policy, a baseline for comparisons (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.policy.action_spaces.make import make_action_space
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.flat_parameters import FlatParameters
from rlrun.engine.policy.policy import Policy
from rlrun.engine.policy.policy_config import PolicyConfig
from rlrun.engine.policy.random_behavior import RandomBehavior


class DummyParameter(nn.Module):
    """Module with a dummy parameter, since a flat parameter vector must not be empty."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))


class UniformPolicy(Policy):
    """Uniform distribution over allowed actions.

    Args:
        spaces: Observation and action space.
        config: Settings, unused.
        seed: Seed, unused.

    Raises:
        UsageError: If an observation or action space is not supported.
    """

    def __init__(self, spaces: Spaces, config: PolicyConfig, seed: int) -> None:
        self.spaces = spaces
        self.leaves = policy_leaves(*spaces, ModelConfig(), normalize_observations=False)
        self.action_space = make_action_space(spaces.action)
        self.module = DummyParameter()
        self.parameters = FlatParameters(self.module)

    @override
    def outputs(
        self, views: Mapping[str, Tensor], batch: SampleBatch, target_views: Mapping[str, Tensor] | None = None
    ) -> Any:
        """Returns no outputs, since the uniform policy has no loss."""
        return None

    @override
    def behavior(self) -> BehaviorPolicy:
        return RandomBehavior(self.spaces)
