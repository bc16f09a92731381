"""Uniformly random policy, used as a baseline and in env checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlrun.engine.data.action_masks import mask_of
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.data.uniform_sampler import UniformSampler
from rlrun.engine.envs.spaces import Spaces

Tree = Any


class RandomActions:
    """Uniformly random policy that respects action masks in observations; see `UniformSampler`.

    Args:
        spaces: Observation and action space.
        seed: Seed of the draws.
    """

    def __init__(self, spaces: Spaces, seed: int) -> None:
        self._sampler = UniformSampler(spaces.action)
        self._generator = np.random.Generator(np.random.Philox(seed))

    def draw(self, observations: Tree) -> Tree:
        """Samples env actions, arrays [B, ...], for observations [B, ...]."""
        slots = len(leaves(observations)[0])
        return self._sampler(self._generator.random((slots, self._sampler.num_draws)), mask_of(observations))

    def draw_one(self, observation: Tree) -> Any:
        """Samples one env action for a single observation [...]."""
        return map_tree(lambda leaf: leaf[0], self.draw(map_tree(lambda leaf: np.asarray(leaf)[None], observation)))
