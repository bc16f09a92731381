"""Env wrappers for meta-learning: trials of several episodes of one task (RL^2), and object-level Q values (RL^3)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from numpy.typing import NDArray
from typing_extensions import override

SWEEPS = 10
"""Number of sweeps of value iteration after each step, starting from the previous values."""

Doubles = NDArray[np.float64]

TRIAL_DRAWS = 0x77A1
"""Seed constant that separates the seeds of a trial's episodes from the env's random stream."""


class Trials(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Env wrapper for RL^2 meta-learning: joins consecutive episodes of one task into one long episode (a trial).

    All episodes of a trial start with the trial's reset options, which define the task; their seeds are derived from
    the trial's seed. The step that ends an episode returns the next episode's first observation, in which the part
    `done` is 1. The end of the last episode ends the trial. Recurrent state therefore persists across the trial's
    episodes.
    The last action and reward are observed with `model.views: {prev_actions: 1, prev_rewards: 1}`.

    Numbers in the infos at episode ends, such as a regret, are summed over the trial.

    Args:
        env: The env.
        episodes: Number of episodes in a trial.

    Source:
        Duan et al., arXiv:1611.02779, section 2.2.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], episodes: int = 2) -> None:
        super().__init__(env)
        if episodes < 1:
            raise ValueError(f"Trials: a trial must have at least 1 episode, not {episodes}")
        self.observation_space = Dict({"done": Discrete(2), "observation": env.observation_space})
        self._episodes = episodes
        self._seeds = np.random.default_rng()
        self._options: dict[str, Any] | None = None
        self._left = 0
        self._sums: dict[str, float] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the env to the first episode of a new trial."""
        if seed is not None:
            self._seeds = np.random.default_rng([seed, TRIAL_DRAWS])
        self._options, self._left, self._sums = options, self._episodes, {}
        observation, info = self._begin()
        return self._shown(observation, 0), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes a step; if it ends an episode, resets the env to the trial's next episode."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if not (terminated or truncated):
            return self._shown(observation, 0), reward, False, False, info
        self._left -= 1
        for name, value in info.items():
            if isinstance(value, int | float):
                self._sums[name] = self._sums.get(name, 0.0) + value
        if not self._left:
            return self._shown(observation, 1), reward, terminated, truncated, {**info, **self._sums}
        first, _ = self._begin()
        return self._shown(first, 1), reward, False, False, info

    def _begin(self) -> tuple[Any, dict[str, Any]]:
        options = None if self._options is None else dict(self._options)
        return self.env.reset(seed=int(self._seeds.integers(2**31)), options=options)  # type: ignore[no-any-return]

    def _shown(self, observation: Any, done: int) -> dict[str, Any]:
        return {"done": np.int64(done), "observation": observation}


class TrialsWithValues(Trials):
    """Env wrapper for RL^3 meta-learning: `Trials` whose observations also contain object-level Q values.

    The wrapper estimates the task's MDP from all steps of a trial (counts of transitions, and mean rewards), and solves
    it by value iteration. Observations have three additional parts for the current state: the `value`, the actions'
    `advantages` (Q - max Q), and the actions' `visits` (log(1 + n) of the counts). An action that was never taken is
    assumed to have reward 0 and to lead to each state with equal probability.

    Args:
        env: The env, with Discrete observations (the MDP's states) and Discrete actions.
        episodes: Number of episodes in a trial.
        gamma: Discount factor of the value iteration.

    Source:
        Bhatia, Nashed and Zilberstein, "RL^3: boosting meta reinforcement learning via RL inside RL^2",
        arXiv:2306.15909, section 4.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], episodes: int = 2, gamma: float = 0.95) -> None:
        states, actions = env.observation_space, env.action_space
        if not isinstance(states, Discrete) or not isinstance(actions, Discrete):
            raise ValueError(f"TrialsWithValues: states and actions must be Discrete, not {states} and {actions}")
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
    """Env wrapper that estimates an MDP from its steps, and the MDP's Q values."""

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
        if not terminated:  # after a termination there is no next state
            self._successors[(*place, self._state)] += 1.0
        self._iterate()
        return observation, reward, terminated, truncated, info

    def _iterate(self) -> None:
        """Runs sweeps of value iteration on the maximum-likelihood estimate of the MDP."""
        numbers = self._visits.clip(min=1.0)
        untried = self._visits[..., None] == 0.0
        transitions = np.where(untried, 1.0 / self._sizes[0], self._successors / numbers[..., None])
        rewards = self._rewards / numbers
        for _ in range(SWEEPS):
            self._values = rewards + self._gamma * (transitions @ self._values.max(-1))

    def current_state_values(self) -> tuple[Doubles, Doubles]:
        """Q values and visits of the actions in the current state, [A] each."""
        return self._values[self._state], self._visits[self._state]
