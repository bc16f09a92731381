"""Goal-conditioned envs: bit flipping and reaching for hindsight experience replay, and search for unobserved goals."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from typing_extensions import override

Floats = NDArray[np.float32]

GOALS = 0x60A1
"""Seed key that makes goals independent of other envs' random numbers with an equal seed."""

GOAL = "goal"
"""Name of the reset option with the goal's coordinates."""

REACH = 0.5
"""Bound of goal coordinates: goals lie in [-REACH, REACH]^2."""

SPEED = 0.1
"""Maximum displacement per step in each coordinate."""

NEAR = 0.01
"""Distance to the goal at which an episode ends."""

GoalObservation = dict[str, NDArray[np.float32]]


class _GoalEnv(gymnasium.Env[GoalObservation, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Env whose reward is -1 at each step until the goal is achieved, which ends the episode.

    The info of each step holds `is_success`. An episode is truncated after `episode_len` steps.

    Args:
        observation: Space of the observation besides goals.
        goal: Space of achieved and desired goals.
        episode_len: Largest number of steps of an episode.
    """

    def __init__(self, observation: spaces.Box, goal: spaces.Box, episode_len: int) -> None:
        parts = {"observation": observation, "achieved_goal": goal, "desired_goal": goal}
        self.observation_space = spaces.Dict(parts)
        self.episode_len = episode_len
        self._goal = np.zeros(goal.shape, np.float32)
        self._elapsed = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[GoalObservation, dict[str, Any]]:
        """Starts an episode with a new state, and a new goal that differs from the state."""
        super().reset(seed=seed)
        self._elapsed = 0
        self._begin()
        while self.compute_terminated(self._achieved()[None], self._goal[None], {})[0]:
            self._begin()
        return self._show(), {}

    def step(self, action: Any) -> tuple[GoalObservation, float, bool, bool, dict[str, Any]]:
        """Applies the action; the reward is 0 if the goal is then achieved, else -1."""
        self._move(action)
        self._elapsed += 1
        achieved, desired = self._achieved()[None], self._goal[None]
        is_success = bool(self.compute_terminated(achieved, desired, {})[0])
        reward = float(self.compute_reward(achieved, desired, {})[0])
        is_late = self._elapsed == self.episode_len and not is_success
        return self._show(), reward, is_success, is_late, {"is_success": float(is_success)}

    def compute_reward(
        self, achieved_goal: NDArray[Any], desired_goal: NDArray[Any], info: dict[str, Any]
    ) -> NDArray[np.float32]:
        """Rewards [N] of steps after which goals [N, D] were achieved: 0 at the desired goal, else -1."""
        return self.compute_terminated(achieved_goal, desired_goal, info).astype(np.float32) - 1

    def compute_terminated(
        self, achieved_goal: NDArray[Any], desired_goal: NDArray[Any], info: dict[str, Any]
    ) -> NDArray[np.bool_]:
        """Whether achieved goals [N, D] are desired ones, [N]."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Draws state and goal of an episode."""
        raise NotImplementedError

    def _move(self, action: Any) -> None:
        """Changes the state by an action."""
        raise NotImplementedError

    def _achieved(self) -> NDArray[np.float32]:
        """Goal that the present state achieves, [D]."""
        raise NotImplementedError

    def _state(self) -> NDArray[np.float32]:
        """Observation besides goals."""
        return self._achieved()

    def _show(self) -> GoalObservation:
        return {"observation": self._state(), "achieved_goal": self._achieved(), "desired_goal": self._goal.copy()}


class BitFlip(_GoalEnv):
    """Bit flipping task: each action flips one of n bits, until all bits equal the desired ones.

    Random actions find the goal with a probability of about 1 / 2^n, so rewards give no learning signal for n above
    about 15. An optimal policy flips each wrong bit once.

    Args:
        num_bits: Number of bits n, and maximum number of steps of an episode.

    Source:
        Andrychowicz et al., arXiv:1707.01495, section 3.1.
    """

    def __init__(self, num_bits: int = 20) -> None:
        bits = spaces.Box(0.0, 1.0, (num_bits,))
        super().__init__(bits, bits, num_bits)
        self.action_space = spaces.Discrete(num_bits)
        self._bits = np.zeros(num_bits, np.float32)

    @override
    def compute_terminated(
        self, achieved_goal: NDArray[Any], desired_goal: NDArray[Any], info: dict[str, Any]
    ) -> NDArray[np.bool_]:
        equal: NDArray[np.bool_] = (achieved_goal == desired_goal).all(-1)
        return equal

    @override
    def _begin(self) -> None:
        self._bits, self._goal = self.np_random.integers(2, size=(2, len(self._bits))).astype(np.float32)

    @override
    def _move(self, action: Any) -> None:
        self._bits[action] = 1 - self._bits[action]

    @override
    def _achieved(self) -> NDArray[np.float32]:
        return self._bits.copy()


class Reach(_GoalEnv):
    """Reach task: a point mass with momentum must reach a position in a square.

    Actions are accelerations. The goal is achieved within `radius` of the desired position; with a radius of 0.05, a
    random policy rarely succeeds.

    Args:
        radius: Maximum distance to the desired position that counts as success.
        episode_len: Maximum number of steps of an episode.
    """

    def __init__(self, radius: float = 0.05, episode_len: int = 50) -> None:
        position = spaces.Box(-1.0, 1.0, (2,))
        super().__init__(spaces.Box(-1.0, 1.0, (4,)), position, episode_len)
        self.action_space = spaces.Box(-1.0, 1.0, (2,))
        self.radius = radius
        self._position, self._velocity = np.zeros((2, 2), np.float32)

    @override
    def compute_terminated(
        self, achieved_goal: NDArray[Any], desired_goal: NDArray[Any], info: dict[str, Any]
    ) -> NDArray[np.bool_]:
        near: NDArray[np.bool_] = np.square(achieved_goal - desired_goal).sum(-1) <= np.float32(self.radius**2)
        return near

    @override
    def _begin(self) -> None:
        self._position, self._goal = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)
        self._velocity = np.zeros(2, np.float32)

    @override
    def _move(self, action: Any) -> None:
        accelerated = np.float32(0.8) * self._velocity + np.float32(0.04) * np.clip(action, -1, 1)
        self._velocity = accelerated.astype(np.float32)
        self._position = np.clip(self._position + self._velocity, -1, 1).astype(np.float32)

    @override
    def _achieved(self) -> NDArray[np.float32]:
        return self._position.copy()

    @override
    def _state(self) -> NDArray[np.float32]:
        return np.concatenate([self._position, self._velocity])


class PointGoals(gymnasium.Env[Floats, Floats]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Point navigation from (0, 0) to an unobserved goal; the reward is minus the squared distance.

    The observation is the position. The goal is uniform in a square, and determined by the episode's seed, so that
    episodes with equal seeds have the same task. The reset option `goal` overrides it. Without knowledge of the goal,
    the optimal policy stays at the start, with a mean cost of 1/6 per step.

    Args:
        episode_len: Steps after which an episode is truncated.

    Source:
        Finn et al., arXiv:1703.03400, section 5.3.
    """

    def __init__(self, episode_len: int = 100) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,))
        self.action_space = spaces.Box(-SPEED, SPEED, (2,))
        self._episode_len = episode_len
        self._elapsed = 0
        self._place = np.zeros(2)
        self._goal = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; without a seed or the option `goal`, the previous episode's goal is kept."""
        if seed is not None:
            self._goal = _drawn(seed)
        if options and GOAL in options:
            self._goal = np.asarray(options[GOAL], np.float64)
        self._elapsed, self._place = 0, np.zeros(2)
        return self._place.astype(np.float32), {}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Moves the point by the action, and ends the episode near the goal or at the time limit."""
        self._place = self._place + np.clip(action, -SPEED, SPEED)
        self._elapsed += 1
        squared = float(np.square(self._place - self._goal).sum())
        is_there = squared < NEAR**2
        return self._place.astype(np.float32), -squared, is_there, self._elapsed >= self._episode_len, {}


def goal(seed: int) -> dict[str, Any]:
    """Samples a task of `PointGoals`: the reset option `goal` that the env itself would sample with this seed."""
    return {"reset_options": {GOAL: _drawn(seed).tolist()}}


def _drawn(seed: int) -> NDArray[np.float64]:
    return np.random.default_rng([seed, GOALS]).uniform(-REACH, REACH, 2)
