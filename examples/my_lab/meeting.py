"""A world of two agents, who walk on a ring and are rewarded when they meet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.plugin import Spaces, World, WorldStep

Observations = dict[str, NDArray[np.float32]]


class Meeting(World):
    """Two agents on a ring; each sees its own place and the other's.

    Args:
        size: Places on the ring.
        length: Steps of an episode.
    """

    possible_agents = ("walker_0", "walker_1")

    def __init__(self, size: int = 8, length: int = 16) -> None:
        self.size = size
        self.length = length
        self.places = np.zeros(2, np.int64)
        self.time = 0

    @override
    def spaces(self, agent: str) -> Spaces:
        """Returns each agent's observation space and actions: back, stay, forward."""
        return Spaces(
            gymnasium.spaces.Box(0.0, 1.0, (2 * self.size,)),
            gymnasium.spaces.Discrete(3),
        )

    @override
    def reset(self, seed: int) -> Observations:
        """Puts both agents at random places."""
        self.places = np.random.default_rng(seed).integers(self.size, size=2)
        self.time = 0
        return self._observations()

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Moves both agents; each is rewarded if they are at the same place."""
        moves = [int(actions[agent]) - 1 for agent in self.possible_agents]
        self.places = (self.places + moves) % self.size
        self.time += 1
        meets = float(self.places[0] == self.places[1])
        is_over = self.time == self.length
        return WorldStep(
            observations=self._observations(),
            rewards=dict.fromkeys(self.possible_agents, meets),
            terminateds={},
            truncateds=dict.fromkeys(self.possible_agents, is_over),
            infos={},
            ended=is_over,
        )

    def _observations(self) -> Observations:
        here, there = np.eye(self.size, dtype=np.float32)[self.places]
        return {
            "walker_0": np.concatenate([here, there]),
            "walker_1": np.concatenate([there, here]),
        }
