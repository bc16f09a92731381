"""Random tabular MDPs: a task distribution over rewards and transitions, for meta-RL."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

MDP = "mdp"
"""Name of the reset option with the seed of the MDP."""

FAMILY_DRAWS = 0x3D9
"""Seed key that makes MDPs independent of their episodes' random numbers."""

Doubles = NDArray[np.float64]


class RandomMDP(gymnasium.Env[int, int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Random MDP: mean rewards from N(1, 1), transitions from a flat Dirichlet distribution; rewards have unit noise.

    Episodes begin in state 0 and are truncated after `episode_len` steps. The reset option `mdp` is the seed of the
    MDP, 0 by default. The info of the last step holds `minus_regret`: the mean rewards of the steps, minus the value of
    the optimal policy of this MDP.

    Args:
        num_states: Number of states.
        num_actions: Number of actions.
        episode_len: Steps of an episode.

    Source:
        Duan et al., arXiv:1611.02779, section 4.2.
    """

    def __init__(self, num_states: int = 10, num_actions: int = 5, episode_len: int = 10) -> None:
        self.observation_space = spaces.Discrete(num_states)
        self.action_space = spaces.Discrete(num_actions)
        self._sizes, self._episode_len = (num_states, num_actions), episode_len
        self._drawn = -1
        self._state = self._elapsed = 0
        self._credit_rewards = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Starts an episode; the reset option `mdp` sets the task."""
        super().reset(seed=seed)
        wanted = int((options or {}).get(MDP, max(self._drawn, 0)))
        if wanted != self._drawn:
            self._draw(wanted)
        self._state, self._elapsed, self._credit_rewards = 0, 0, 0.0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Takes an action, and draws the reward and the next state."""
        mean = float(self._rewards[self._state, action])
        self._credit_rewards += mean
        self._elapsed += 1
        self._state = int(self._cumulated[self._state, action].searchsorted(self.np_random.random(), "right"))
        over = self._elapsed >= self._episode_len
        told = {"minus_regret": self._credit_rewards - self.best_return} if over else {}
        return self._state, mean + float(self.np_random.normal()), False, over, told

    def _draw(self, seed: int) -> None:
        states, _ = self._sizes
        generator = np.random.default_rng([seed, FAMILY_DRAWS])
        self._drawn = seed
        self._rewards: Doubles = generator.normal(1.0, 1.0, self._sizes)
        transitions = generator.dirichlet(np.ones(states), self._sizes)
        self._cumulated: Doubles = transitions.cumsum(-1)
        self._cumulated[..., -1] = 1.0  # whatever the sum is rounded to
        values = np.zeros(states)
        for _ in range(self._episode_len):
            values = (self._rewards + transitions @ values).max(-1)
        self.best_return = float(values[0])


def random_mdp(seed: int) -> dict[str, Any]:
    """Samples an MDP: its seed, as a reset option."""
    return {"reset_options": {MDP: int(np.random.default_rng([seed, FAMILY_DRAWS]).integers(2**31))}}
