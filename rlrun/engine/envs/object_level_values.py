"""Object-level values for RL^3 meta-learning: Q values of the current task's estimated MDP, as inputs of the policy."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.envs.trials import Trials

SWEEPS = 10
"""Sweeps of value iteration after each step, which begin with the values before it."""

Doubles = NDArray[np.float64]


class TrialsWithValues(Trials):
    """Env wrapper for RL^3 meta-learning: a trial of `Trials` that also observes object-level Q values.

    From all steps of a trial it estimates the task's MDP, by counts of transitions and mean rewards, and solves it by
    value iteration. Observations have three additional parts for the current state: the `value`, the actions'
    `advantages` (Q - max Q), and the actions' `visits` (log(1 + n) of the counts). An action that was never taken is
    assumed to have reward 0 and to lead to each state with equal probability.

    Args:
        env: The env, of Discrete observations (the MDP's states) and Discrete actions.
        episodes: Number of episodes in a trial.
        gamma: Discount factor of the value iteration.

    Source:
        Bhatia, Nashed and Zilberstein, "RL^3: boosting meta reinforcement learning via RL inside RL^2",
        arXiv:2306.15909, section 4.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], episodes: int = 2, gamma: float = 0.95) -> None:
        states, actions = env.observation_space, env.action_space
        if not isinstance(states, Discrete) or not isinstance(actions, Discrete):
            raise ValueError(f"TrialsWithValues: states and actions are Discrete, not {states} and {actions}")
        self._estimate = _EstimatedMDP(env, states, actions, gamma)
        super().__init__(self._estimate, episodes)
        number = (int(actions.n),)
        self.observation_space = gymnasium.spaces.Dict(
            {
                **self.observation_space,
                "value": Box(-np.inf, np.inf, (1,)),
                "advantages": Box(-np.inf, 0.0, number),
                "visits": Box(0.0, np.inf, number),
            }
        )

    @override
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._estimate.forget()
        return super().reset(seed=seed, options=options)

    @override
    def _shown(self, observation: Any, done: int) -> dict[str, Any]:
        values, visits = self._estimate.current_state_values()
        own = {"value": values.max(keepdims=True), "advantages": values - values.max(), "visits": np.log1p(visits)}
        return {**super()._shown(observation, done), **{name: part.astype(np.float32) for name, part in own.items()}}


class _EstimatedMDP(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Env wrapper that estimates the MDP of its steps, and the Q values of the estimate."""

    def __init__(self, env: gymnasium.Env[Any, Any], states: Discrete, actions: Discrete, gamma: float) -> None:
        super().__init__(env)
        self._gamma = gamma
        self._starts = int(states.start), int(actions.start)
        self._sizes = int(states.n), int(actions.n)
        self._state = 0
        self.forget()

    def forget(self) -> None:
        """Forgets all steps: a new task begins."""
        self._visits: Doubles = np.zeros(self._sizes)
        self._rewards: Doubles = np.zeros(self._sizes)
        self._successors: Doubles = np.zeros((*self._sizes, self._sizes[0]))
        self._values: Doubles = np.zeros(self._sizes)

    @override
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._state = int(observation) - self._starts[0]
        return observation, info

    @override
    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        place = self._state, int(action) - self._starts[1]
        self._visits[place] += 1.0
        self._rewards[place] += reward
        self._state = int(observation) - self._starts[0]
        if not terminated:  # nothing follows otherwise
            self._successors[(*place, self._state)] += 1.0
        self._iterate()
        return observation, reward, terminated, truncated, info

    def _iterate(self) -> None:
        """Sweeps of value iteration over the maximum-likelihood estimate of the MDP."""
        numbers = self._visits.clip(min=1.0)
        untried = self._visits[..., None] == 0.0
        transitions = np.where(untried, 1.0 / self._sizes[0], self._successors / numbers[..., None])
        rewards = self._rewards / numbers
        for _ in range(SWEEPS):
            self._values = rewards + self._gamma * (transitions @ self._values.max(-1))

    def current_state_values(self) -> tuple[Doubles, Doubles]:
        """Q values and visits of the actions in the present state, [A] each."""
        return self._values[self._state], self._visits[self._state]
