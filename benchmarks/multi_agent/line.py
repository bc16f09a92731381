"""The world of the multi-agent benchmark: many agents on a line, with dicts; it imports neither rlrun nor RLlib."""

from __future__ import annotations

from typing import Any

import numpy as np

OBSERVED = 8
ACTIONS = 4
EPISODE_STEPS = 200


class Line:
    """Agents on a line that move toward their own targets; an episode has 200 steps.

    All agents are computed in one operation, so the benchmark measures the frameworks and not the world.

    Args:
        num_agents: Number of agents.
    """

    def __init__(self, num_agents: int) -> None:
        self.agents = [f"agent_{i}" for i in range(num_agents)]
        self.seen = np.zeros((num_agents, OBSERVED), np.float32)

    def reset(self, seed: int | None) -> dict[str, Any]:
        """Starts an episode, and returns the observations by agent."""
        self.draws = np.random.default_rng(seed)
        self.taken = 0
        self.seen[:] = self.draws.standard_normal(self.seen.shape, np.float32)
        return self._observations()

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], dict[str, float], bool]:
        """Returns observations and rewards by agent, and whether the episode is truncated."""
        self.taken += 1
        moved = np.fromiter((actions[agent] for agent in self.agents), np.float32, len(self.agents)) - 1.5
        self.seen[:, 0] += 0.1 * moved
        self.seen[:, 1:] = 0.9 * self.seen[:, 1:] + 0.1 * self.seen[:, :1]
        rewards = dict(zip(self.agents, (-np.abs(self.seen[:, 0])).tolist(), strict=True))
        return self._observations(), rewards, self.taken >= EPISODE_STEPS

    def _observations(self) -> dict[str, Any]:
        return dict(zip(self.agents, self.seen.copy(), strict=True))
