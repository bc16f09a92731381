"""Small envs whose best value is known exactly: ``env: rlrun.toys.known_optimum:DictCartPole``.

Two more are for tests of failures: one raises and one hangs.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from numpy.typing import NDArray
from typing_extensions import override

Step = tuple[Any, float, bool, bool, dict[str, Any]]
"""Observation, reward, terminated, truncated, info."""


class ConstantReward(gymnasium.Env[NDArray[np.float32], int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Pays 1 for every step, shows nothing and never terminates: it only truncates.

    Since returns bootstrap at a truncation, the value of its only observation is exactly 1 / (1 - gamma),
    whatever the policy does. An algorithm that takes truncation for termination learns less. The return of an episode
    is `episode_len`.
    """

    def __init__(self, episode_len: int = 100) -> None:
        """Makes the world; episodes are truncated after `episode_len` steps."""
        self.observation_space = spaces.Box(-1.0, 1.0, (1,))
        self.action_space = spaces.Discrete(2)
        self._episode_len = episode_len
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        super().reset(seed=seed)
        self._elapsed = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Step:
        """Pays 1."""
        self._elapsed += 1
        return np.zeros(1, np.float32), 1.0, False, self._elapsed >= self._episode_len, {}


class DictCartPole(CartPoleEnv):  # type: ignore[misc]
    """CartPole-v1 with its four numbers under two keys: position (cart, pole) and velocity (cart, pole).

    The best return is 500: 1 for each step until the episode is truncated.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        """Makes the world."""
        super().__init__(render_mode=render_mode)
        bounds = CartPoleEnv().observation_space
        low, high = bounds.low, bounds.high
        self.observation_space = spaces.Dict(
            position=spaces.Box(low[0::2], high[0::2]), velocity=spaces.Box(low[1::2], high[1::2])
        )
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        self._elapsed = 0
        numbers, info = super().reset(seed=seed, options=options)
        return {"position": numbers[0::2], "velocity": numbers[1::2]}, info

    def step(self, action: int) -> Step:
        """Pushes the cart."""
        self._elapsed += 1
        numbers, reward, terminated, _, info = super().step(action)
        observation = {"position": numbers[0::2], "velocity": numbers[1::2]}
        return observation, reward, terminated, self._elapsed >= 500, info


class TwoStepCredit(gymnasium.Env[NDArray[np.float32], int]):  # type: ignore[misc]
    """Pays for the first of two actions only after the second.

    The observation is 0, then 1; action 1 in the first step is paid 1 at the second, action 0 nothing. The best return
    is 1; under the best policy the values are gamma at observation 0 and, as the second observation does not tell the
    first action, 1 at observation 1.
    """

    def __init__(self) -> None:
        """Makes the world."""
        self.observation_space = spaces.Box(0.0, 1.0, (1,))
        self.action_space = spaces.Discrete(2)
        self._first_action: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        super().reset(seed=seed)
        self._first_action = None
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Step:
        """Keeps the first action, pays for it after the second."""
        if self._first_action is None:
            self._first_action = int(action)
            return np.ones(1, np.float32), 0.0, False, False, {}
        return np.ones(1, np.float32), float(self._first_action), True, False, {}


class ObservationReward(gymnasium.Env[NDArray[np.float32], int]):  # type: ignore[misc]
    """Shows -1 or 1 and pays what it showed, in episodes of one step; actions mean nothing.

    The value of an observation is exactly the observation; the expected return is 0.
    """

    def __init__(self) -> None:
        """Makes the world."""
        self.observation_space = spaces.Box(-1.0, 1.0, (1,))
        self.action_space = spaces.Discrete(2)
        self._shown = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Shows a new number."""
        super().reset(seed=seed)
        self._shown = float(self.np_random.choice([-1.0, 1.0]))
        return np.array([self._shown], np.float32), {}

    def step(self, action: int) -> Step:
        """Pays what was shown."""
        return np.array([self._shown], np.float32), self._shown, True, False, {}


class ActionReward(gymnasium.Env[NDArray[np.float32], int]):  # type: ignore[misc]
    """Pays 1 for the last of its actions and 0 for the others, in episodes of one step.

    The best return, and the value of the only observation under the best policy, is 1; a random policy gets 1 /
    `num_actions`.
    """

    def __init__(self, num_actions: int = 2, first_action: int = 0) -> None:
        """Makes the world; its actions are `first_action` and the `num_actions` - 1 whole numbers after it."""
        self.observation_space = spaces.Box(-1.0, 1.0, (1,))
        self.action_space = spaces.Discrete(num_actions, start=first_action)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Step:
        """Pays for the last action."""
        if not self.action_space.contains(action):
            raise ValueError(f"action {action} is outside {self.action_space}")
        last = self.action_space.start + self.action_space.n - 1
        return np.zeros(1, np.float32), float(action == last), True, False, {}


class CueRecall(gymnasium.Env[NDArray[np.float32], int]):  # type: ignore[misc]
    """Shows a cue, -1 or 1, once and pays 1 at the episode's end if the last action names it: 0 for -1, 1 for 1.

    All other observations are 0. With memory the best return is 1. Without it every policy gets 1/2 on average, as the
    observation at the last action has no information.
    """

    def __init__(self, delay: int = 3) -> None:
        """Makes the world; the last action comes `delay` steps after the cue."""
        self.observation_space = spaces.Box(-1.0, 1.0, (1,))
        self.action_space = spaces.Discrete(2)
        self._delay = delay
        self._cue = 0
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Shows a new cue."""
        super().reset(seed=seed)
        self._cue, self._elapsed = int(self.np_random.integers(2)), 0
        return np.array([2.0 * self._cue - 1.0], np.float32), {}

    def step(self, action: int) -> Step:
        """Pays for the last action."""
        is_last = self._elapsed == self._delay
        self._elapsed += 1
        return np.zeros(1, np.float32), float(is_last and action == self._cue), is_last, False, {}


class MultiDiscreteMatch(gymnasium.Env[NDArray[np.int64], NDArray[np.int64]]):  # type: ignore[misc]
    """Shows three whole numbers and pays 1/3 for each that the action repeats, in episodes of 10 steps.

    Observations and actions are MultiDiscrete([3, 2, 4]). The best return is 10 and comes from repeating the
    observation; a random policy gets 10 * (1/3 + 1/2 + 1/4) / 3, about 3.6.
    """

    def __init__(self) -> None:
        """Makes the world."""
        self.observation_space = spaces.MultiDiscrete([3, 2, 4])
        self.action_space = spaces.MultiDiscrete([3, 2, 4])
        self._shown = np.zeros(3, np.int64)
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Shows the first numbers."""
        super().reset(seed=seed)
        self._elapsed = 0
        self._shown = self.np_random.integers(self.action_space.nvec)
        return self._shown, {}

    def step(self, action: NDArray[np.int64]) -> Step:
        """Pays for each number repeated and shows the next ones."""
        self._elapsed += 1
        reward = float(np.mean(action == self._shown))
        self._shown = self.np_random.integers(self.action_space.nvec)
        return self._shown, reward, self._elapsed >= 10, False, {}


class MultiBinaryMatch(gymnasium.Env[NDArray[np.int8], NDArray[np.int8]]):  # type: ignore[misc]
    """Shows four bits and pays 1/4 for each that the action repeats, in episodes of 10 steps.

    The best return is 10 and comes from repeating the observation; a random policy gets 5.
    """

    def __init__(self) -> None:
        """Makes the world."""
        self.observation_space = spaces.MultiBinary(4)
        self.action_space = spaces.MultiBinary(4)
        self._shown = np.zeros(4, np.int8)
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Shows the first bits."""
        super().reset(seed=seed)
        self._elapsed = 0
        self._shown = self.np_random.integers(0, 2, 4, dtype=np.int8)
        return self._shown, {}

    def step(self, action: NDArray[np.int8]) -> Step:
        """Pays for each bit repeated and shows the next ones."""
        self._elapsed += 1
        reward = float(np.mean(action == self._shown))
        self._shown = self.np_random.integers(0, 2, 4, dtype=np.int8)
        return self._shown, reward, self._elapsed >= 10, False, {}


class AsymmetricBox(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):  # type: ignore[misc]
    """Takes two numbers whose bounds are not centred on 0 and pays minus their squared distance from a target.

    Actions lie in [-1, 3] x [0, 0.5], the target is (2, 0.1), episodes have one step. The best return is 0. Numbers
    outside the bounds are an error, because many simulators break on them.
    """

    def __init__(self) -> None:
        """Makes the world."""
        self.observation_space = spaces.Box(-1.0, 1.0, (1,))
        self.action_space = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([3.0, 0.5], np.float32))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: NDArray[np.float32]) -> Step:
        """Pays minus the squared distance."""
        if np.any(action < self.action_space.low) or np.any(action > self.action_space.high):
            raise ValueError(f"action {action} is outside {self.action_space}")
        return np.zeros(1, np.float32), -float(np.sum((action - np.array([2.0, 0.1])) ** 2)), True, False, {}


class NestedTuple(gymnasium.Env[tuple[Any, ...], int]):  # type: ignore[misc]
    """Shows a tuple of a whole number, and a dict of a tuple of floats and bits, in episodes of 10 steps.

    Pays 1 for the action that equals the whole number, one of three; the rest is noise. The best return is 10, a random
    policy gets 10/3.
    """

    def __init__(self) -> None:
        """Makes the world."""
        noise = spaces.Dict(inner=spaces.Tuple((spaces.Box(-1.0, 1.0, (2,)), spaces.MultiBinary(2))))
        self.observation_space = spaces.Tuple((spaces.Discrete(3), noise))
        self.action_space = spaces.Discrete(3)
        self._shown = 0
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Shows the first tuple."""
        super().reset(seed=seed)
        self._elapsed = 0
        return self._show(), {}

    def step(self, action: int) -> Step:
        """Pays for the right action and shows the next tuple."""
        self._elapsed += 1
        reward = float(action == self._shown)
        return self._show(), reward, self._elapsed >= 10, False, {"rights": reward}

    def _show(self) -> tuple[Any, ...]:
        self._shown = int(self.np_random.integers(3))
        floats = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        return self._shown, {"inner": (floats, self.np_random.integers(0, 2, 2, dtype=np.int8))}


class Crashing(ConstantReward):
    """A `ConstantReward` that raises in one step: for tests of what the user is shown."""

    def __init__(self, crash_at: int, crash_worker: int | None = None, worker_index: int = 0) -> None:
        """Makes the world; step `crash_at` of each episode raises, counted from 1, in one worker or in all."""
        super().__init__()
        self._crash_at = crash_at if crash_worker in (None, worker_index) else 0

    @override
    def step(self, action: int) -> Step:
        """Pays 1, or raises."""
        if self._elapsed + 1 == self._crash_at:
            raise RuntimeError(f"this world crashes at step {self._crash_at}")
        return super().step(action)


class Hanging(ConstantReward):
    """A `ConstantReward` that sleeps in one step: for tests of time-outs."""

    def __init__(self, hang_at: int, seconds: float, hang_worker: int | None = None, worker_index: int = 0) -> None:
        """Makes the world; step `hang_at` of each episode sleeps, counted from 1, in one worker or in all."""
        super().__init__()
        self._hang_at = hang_at if hang_worker in (None, worker_index) else 0
        self._seconds = seconds

    @override
    def step(self, action: int) -> Step:
        """Pays 1, perhaps late."""
        if self._elapsed + 1 == self._hang_at:
            time.sleep(self._seconds)
        return super().step(action)
