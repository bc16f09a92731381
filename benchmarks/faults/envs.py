"""Envs and wrappers with one mistake each, and envs that are difficult; the specs in `env_faults.yaml` use them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

Observation = NDArray[np.float32]
Step = tuple[Observation, float, bool, bool, dict[str, Any]]


class TerminatesAtTimeLimit(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]  # mypy skips gymnasium
    """Wrapper with a mistake: reports the time limit as `terminated`."""

    def step(self, action: Any) -> Step:
        """Steps the env, and reports every end as `terminated`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, float(reward), terminated or truncated, False, info


class ScalesObservations(gymnasium.ObservationWrapper[Any, Any, Any]):  # type: ignore[misc]
    """Wrapper that multiplies each number of the observation; a mistake if the numbers become large.

    Args:
        env: The env.
        factors: A factor for each number.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], factors: list[float]) -> None:
        super().__init__(env)
        self._factors = np.array(factors, np.float32)
        self.observation_space = Box(-np.inf, np.inf, self._factors.shape, np.float32)

    def observation(self, observation: Observation) -> Observation:
        """Returns the observation in other units."""
        return observation * self._factors


class ScalesRewards(gymnasium.RewardWrapper[Any, Any]):  # type: ignore[misc]
    """Wrapper that multiplies rewards; a mistake if they become large.

    Args:
        env: The env.
        factor: The factor.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], factor: float) -> None:
        super().__init__(env)
        self._factor = factor

    def reward(self, reward: float) -> float:
        """Returns the reward in other units."""
        return self._factor * float(reward)


class DeclaresWiderActions(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]
    """Wrapper with a mistake: declares action bounds several times as wide as the bounds to which it clips actions.

    Args:
        env: The env.
        factor: Ratio of the declared to the real bounds.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], factor: float) -> None:
        super().__init__(env)
        self._inner: Any = env.action_space
        self.action_space = Box(factor * self._inner.low, factor * self._inner.high, dtype=np.float32)

    def step(self, action: NDArray[np.float32]) -> Step:
        """Steps the env with the clipped action."""
        observation, reward, terminated, truncated, info = self.env.step(
            np.clip(action, self._inner.low, self._inner.high)
        )
        return observation, float(reward), terminated, truncated, info


class ShowsPreviousObservation(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]
    """Wrapper with a mistake: shows each observation one step late, after the policy has had to act."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Starts an episode; the first observation appears twice."""
        self._latest, info = self.env.reset(seed=seed, options=options)
        return self._latest, info

    def step(self, action: Any) -> Step:
        """Steps the env, and returns the observation from before the step."""
        shown = self._latest
        self._latest, reward, terminated, truncated, info = self.env.step(action)
        return shown, float(reward), terminated, truncated, info


class LateReward(gymnasium.Env[Any, Any]):  # type: ignore[misc]
    """Env whose first action determines the reward of the last step; no mistake, but it needs a long horizon.

    Observation: [3]: the cue, -1 or 1; whether the first action matched the cue, 1 or -1, and 0 before it; the time
    from 0 to 1. The reward is 1 in the last step if the first action matched the cue. Other actions have no effect.

    Args:
        steps: Number of steps in an episode.
    """

    def __init__(self, steps: int = 200) -> None:
        self.observation_space = Box(-1.0, 1.0, (3,))
        self.action_space = Discrete(2)
        self._steps = steps
        self._cue, self._chosen, self._elapsed = 1, 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Starts an episode with a random cue."""
        super().reset(seed=seed)
        self._cue, self._chosen, self._elapsed = 2 * int(self.np_random.integers(2)) - 1, 0, 0
        return self._shown(), {}

    def step(self, action: int) -> Step:
        """Stores the first action, and pays the reward at the end."""
        if self._elapsed == 0:
            self._chosen = 1 if 2 * int(action) - 1 == self._cue else -1
        self._elapsed += 1
        ends = self._elapsed == self._steps
        return self._shown(), float(ends and self._chosen == 1), ends, False, {}

    def _shown(self) -> Observation:
        return np.array([self._cue, self._chosen, self._elapsed / self._steps], np.float32)


class ShowsOnlyTime(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]
    """Wrapper with a mistake: the observation, [1], is the elapsed share of the episode, and nothing else.

    Args:
        env: The env.
        steps: Maximum number of steps in an episode.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], steps: int) -> None:
        super().__init__(env)
        self.observation_space = Box(0.0, 1.0, (1,), np.float32)
        self._steps, self._elapsed = steps, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Starts an episode at time 0."""
        self._elapsed = 0
        return self._shown(), self.env.reset(seed=seed, options=options)[1]

    def step(self, action: Any) -> Step:
        """Steps the env, and hides its observations."""
        self._elapsed += 1
        _, reward, terminated, truncated, info = self.env.step(action)
        return self._shown(), float(reward), terminated, truncated, info

    def _shown(self) -> Observation:
        return np.array([self._elapsed / self._steps], np.float32)


class PaysTheSame(gymnasium.RewardWrapper[Any, Any]):  # type: ignore[misc]
    """Wrapper with a mistake: the reward is always -1."""

    def reward(self, reward: float) -> float:
        """Returns -1."""
        return -1.0


class ReplacesAction(gymnasium.ActionWrapper[Any, Any, Any]):  # type: ignore[misc]
    """Wrapper with a mistake: replaces one of the env's discrete actions with another.

    Args:
        env: The env.
        action: The action to replace.
        by: The action that the env gets instead.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], action: int, by: int) -> None:
        super().__init__(env)
        self._action, self._by = action, by

    def action(self, action: int) -> int:
        """Returns the action that the env gets."""
        return self._by if int(action) == self._action else int(action)


class DisconnectsMotor(gymnasium.ActionWrapper[Any, Any, Any]):  # type: ignore[misc]
    """Wrapper with a mistake: one number of the action has no effect.

    Args:
        env: The env.
        motor: Index of that number.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], motor: int) -> None:
        super().__init__(env)
        self._motor = motor

    def action(self, action: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the action with that number set to 0."""
        taken = np.array(action)
        taken[self._motor] = 0.0
        return taken


class NeverEnds(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]
    """Wrapper with a mistake: hides the end of an episode."""

    def step(self, action: Any) -> Step:
        """Steps the env, even after the end of an episode."""
        observation, reward, _, _, info = self.env.step(action)
        return observation, float(reward), False, False, info


class IgnoresSeed(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]
    """Wrapper with a mistake: ignores the seed of `reset`."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Starts an episode that no seed can reproduce."""
        return self.env.reset(options=options)


class MovingGoal(gymnasium.Env[Any, Any]):  # type: ignore[misc]
    """Env in which a point follows a goal that swings once to each side; hiding the clock is a mistake.

    Observation: the position and, unless hidden, the elapsed share of the episode. Action: [1], the velocity. The
    reward is the negative distance to the goal, whose position depends only on the time.

    Args:
        steps: Number of steps after which a time limit ends an episode.
        hides_clock: Whether the observation lacks the time.
    """

    def __init__(self, steps: int = 50, *, hides_clock: bool = False) -> None:
        self.observation_space = Box(-10.0, 10.0, (1 if hides_clock else 2,), np.float32)
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)
        self._steps, self._hides_clock = steps, hides_clock
        self._position, self._elapsed = 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Starts an episode at a random position."""
        super().reset(seed=seed)
        self._position, self._elapsed = float(self.np_random.uniform(-1.0, 1.0)), 0
        return self._shown(), {}

    def step(self, action: NDArray[np.float32]) -> Step:
        """Moves the point by up to 0.25, and the goal."""
        self._position += 0.25 * float(np.clip(action[0], -1.0, 1.0))
        self._elapsed += 1
        goal = float(np.sin(2 * np.pi * self._elapsed / self._steps))
        return self._shown(), -abs(self._position - goal), False, self._elapsed == self._steps, {}

    def _shown(self) -> Observation:
        clock = () if self._hides_clock else (self._elapsed / self._steps,)
        return np.array([self._position, *clock], np.float32)


class AliasedCorridor(gymnasium.Env[Any, Any]):  # type: ignore[misc]
    """Env in which two cells look alike but need opposite moves; no mistake, but greedy actions go in circles.

    It has five cells in a row, an exit below the middle one and a pit below each end; the second and the fourth cell
    look the same (Silver's aliased grid world). Observation: [4], one-hot: left end, corridor, middle, right end.
    Actions: left, right, down. The exit pays 1, a pit -1, and each step -0.02; episodes start at an end of the row and
    have a time limit.

    Args:
        steps: Maximum number of steps in an episode.
    """

    _LOOKS = (0, 1, 2, 1, 3)

    def __init__(self, steps: int = 50) -> None:
        self.observation_space = Box(0.0, 1.0, (4,), np.float32)
        self.action_space = Discrete(3)
        self._steps, self._cell, self._elapsed = steps, 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Starts an episode at one of the ends."""
        super().reset(seed=seed)
        self._cell, self._elapsed = 4 * int(self.np_random.integers(2)), 0
        return self._shown(), {}

    def step(self, action: int) -> Step:
        """Moves the agent; walls stop it."""
        self._elapsed += 1
        reward, ends = -0.02, False
        if int(action) < 2:
            self._cell = min(max(self._cell + (1 if int(action) else -1), 0), 4)
        elif self._cell in (0, 2, 4):
            reward, ends = reward + (1.0 if self._cell == 2 else -1.0), True
        return self._shown(), reward, ends, not ends and self._elapsed >= self._steps, {}

    def _shown(self) -> Observation:
        shown = np.zeros(4, np.float32)
        shown[self._LOOKS[self._cell]] = 1.0
        return shown
