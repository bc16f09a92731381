"""Observation entries that only critics see: available in training, but not needed to act with a policy (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import gymnasium
from gymnasium.spaces import Dict

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.data.space_kinds import batched
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.spaces import mismatch
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ModelConfig


@dataclass(frozen=True)
class PrivilegedParts:
    """Entries of an observation that only critics see.

    Attributes:
        placeholders: Arbitrary values for these entries by key, [1, ...]; actions do not depend on them.
    """

    placeholders: Mapping[str, Any] = field(default_factory=dict)

    def actor_space(self, space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
        """Returns the observation space without the entries that only critics see."""
        if not self.placeholders:
            return space
        assert isinstance(space, Dict)
        return Dict({key: part for key, part in space.items() if key not in self.placeholders})

    def batch(self, space: gymnasium.Space[Any], observation: Any) -> Any:
        """Returns an observation for the actor as a batch [1, ...], completed with placeholders.

        Args:
            space: The observation space.
            observation: Observation in it, with or without the entries that only critics see.

        Raises:
            UsageError: The observation is not in the space, for example because of its shape or NaN.
        """
        seen = self.actor_space(space)
        if self.placeholders and isinstance(observation, Mapping):
            observation = {key: part for key, part in observation.items() if key not in self.placeholders}
        if reason := mismatch(seen, observation):
            raise UsageError(reason)
        return self.completed(batched(seen, observation), 1)

    def completed(self, observations: Any, rows: int) -> Any:
        """Completes the actor's observations [B, ...] with placeholders for the entries that only critics see."""
        if not self.placeholders:
            return observations
        return {**map_tree(lambda leaf: leaf.repeat(rows, axis=0), dict(self.placeholders)), **observations}


def privileged_parts(space: gymnasium.Space[Any], model: ModelConfig) -> PrivilegedParts:
    """Returns the observation entries that only critics see; none if the setting `model.actor_sees` is null."""
    if model.actor_sees is None or not isinstance(space, Dict):
        return PrivilegedParts()
    masks = {setting.mask for key, setting in model.observations.items() if key in model.actor_sees}
    seen = {ACTION_MASK, *model.actor_sees, *masks}
    return PrivilegedParts({key: _any_element(part) for key, part in space.items() if key not in seen})


def _any_element(space: gymnasium.Space[Any]) -> Any:
    own = deepcopy(space)  # sampling must not advance the env's own generator
    own.seed(0)
    return batched(own, own.sample())
