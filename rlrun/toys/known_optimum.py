"""Test envs with analytically known optimal values, such as `DictCartPole` (``env: rlrun.toys:DictCartPole``).

Two additional envs are for tests of failures: one raises an error and one hangs.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from numpy.typing import NDArray
from typing_extensions import override

Vector = NDArray[np.float32]

Step = tuple[Any, float, bool, bool, dict[str, Any]]
"""Result of `step`: observation, reward, terminated, truncated, info."""


class ConstantReward(gymnasium.Env[NDArray[np.float32], int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Env with reward 1 at every step, a constant observation, and truncation without termination.

    Since returns bootstrap at a truncation, the value of the env's only observation is exactly 1 / (1 - gamma),
    whatever the policy does. An algorithm that treats truncation as termination learns a lower value. The return of an
    episode is `episode_len`.
    """

    def __init__(self, episode_len: int = 100) -> None:
        """Creates the env; episodes are truncated after `episode_len` steps."""
        self.observation_space = spaces.Box(-1.0, 1.0, (1,))
        self.action_space = spaces.Discrete(2)
        self._episode_len = episode_len
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; returns the initial observation."""
        super().reset(seed=seed)
        self._elapsed = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Step:
        """Returns reward 1 and the constant observation."""
        self._elapsed += 1
        return np.zeros(1, np.float32), 1.0, False, self._elapsed >= self._episode_len, {}


class DictCartPole(CartPoleEnv):  # type: ignore[misc]
    """CartPole-v1 with Dict observations of two leaves: position (cart, pole) and velocity (cart, pole).

    The best return is 500: 1 for each step until the episode is truncated.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        """Creates the env."""
        super().__init__(render_mode=render_mode)
        bounds = CartPoleEnv().observation_space
        low, high = bounds.low, bounds.high
        self.observation_space = spaces.Dict(
            position=spaces.Box(low[0::2], high[0::2]), velocity=spaces.Box(low[1::2], high[1::2])
        )
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; returns the initial observation."""
        self._elapsed = 0
        numbers, info = super().reset(seed=seed, options=options)
        return {"position": numbers[0::2], "velocity": numbers[1::2]}, info

    def step(self, action: int) -> Step:
        """Pushes the cart to the left or to the right."""
        self._elapsed += 1
        numbers, reward, terminated, _, info = super().step(action)
        observation = {"position": numbers[0::2], "velocity": numbers[1::2]}
        return observation, reward, terminated, self._elapsed >= 500, info


class TwoStepCredit(gymnasium.Env[NDArray[np.float32], int]):  # type: ignore[misc]
    """Delayed credit assignment over two steps: the first action is rewarded in the second step.

    The observation is 0 in the first step and 1 in the second. Action 1 in the first step earns a reward of 1 in the
    second step; action 0 earns nothing. The optimal return is 1. Under the optimal policy, the value is gamma at
    observation 0, and 1 at observation 1, which does not reveal the first action.
    """

    def __init__(self) -> None:
        """Creates the env."""
        self.observation_space = spaces.Box(0.0, 1.0, (1,))
        self.action_space = spaces.Discrete(2)
        self._first_action: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; returns the initial observation."""
        super().reset(seed=seed)
        self._first_action = None
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Step:
        """Stores the first action, and rewards it in the second step."""
        if self._first_action is None:
            self._first_action = int(action)
            return np.ones(1, np.float32), 0.0, False, False, {}
        return np.ones(1, np.float32), float(self._first_action), True, False, {}


class ObservationReward(gymnasium.Env[NDArray[np.float32], int]):  # type: ignore[misc]
    """One-step env whose reward equals the observation, -1 or 1; actions have no effect.

    The value of an observation is exactly the observation; the expected return is 0.
    """

    def __init__(self) -> None:
        """Creates the env."""
        self.observation_space = spaces.Box(-1.0, 1.0, (1,))
        self.action_space = spaces.Discrete(2)
        self._shown = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; the observation is -1 or 1 at random."""
        super().reset(seed=seed)
        self._shown = float(self.np_random.choice([-1.0, 1.0]))
        return np.array([self._shown], np.float32), {}

    def step(self, action: int) -> Step:
        """Ends the episode; the reward equals the observation."""
        return np.array([self._shown], np.float32), self._shown, True, False, {}


class ActionReward(gymnasium.Env[NDArray[np.float32], int]):  # type: ignore[misc]
    """One-step bandit with a reward of 1 for the action with the highest index, 0 for all others.

    The best return, and the value of the only observation under the best policy, is 1; a random policy gets 1 /
    `num_actions`.
    """

    def __init__(self, num_actions: int = 2, first_action: int = 0) -> None:
        """Creates the env, with integer actions from `first_action` to `first_action + num_actions - 1`."""
        self.observation_space = spaces.Box(-1.0, 1.0, (1,))
        self.action_space = spaces.Discrete(num_actions, start=first_action)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; returns the initial observation."""
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Step:
        """Ends the episode; the reward is 1 for the last of the actions, else 0."""
        if not self.action_space.contains(action):
            raise ValueError(f"action {action} is outside {self.action_space}")
        last = self.action_space.start + self.action_space.n - 1
        return np.zeros(1, np.float32), float(action == last), True, False, {}


class CueRecall(gymnasium.Env[NDArray[np.float32], int]):  # type: ignore[misc]
    """Memory task: recall an initial cue, -1 or 1, with the last action (0 for -1, 1 for 1) for a reward of 1.

    All other observations are 0. With memory, the best return is 1. Without memory, every policy gets 1/2 on average,
    since the last observation contains no information.
    """

    def __init__(self, delay: int = 3) -> None:
        """Creates the env; the rewarded action is `delay` steps after the cue."""
        self.observation_space = spaces.Box(-1.0, 1.0, (1,))
        self.action_space = spaces.Discrete(2)
        self._delay = delay
        self._cue = 0
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; the first observation is a new random cue."""
        super().reset(seed=seed)
        self._cue, self._elapsed = int(self.np_random.integers(2)), 0
        return np.array([2.0 * self._cue - 1.0], np.float32), {}

    def step(self, action: int) -> Step:
        """Takes a step; in the last one, the reward is 1 if the action matches the cue."""
        is_last = self._elapsed == self._delay
        self._elapsed += 1
        return np.zeros(1, np.float32), float(is_last and action == self._cue), is_last, False, {}


class MultiDiscreteMatch(gymnasium.Env[NDArray[np.int64], NDArray[np.int64]]):  # type: ignore[misc]
    """MultiDiscrete matching task: reward 1/3 for each of three observed integers that the action repeats.

    Observations and actions are MultiDiscrete([3, 2, 4]); episodes have 10 steps. The optimal policy repeats the
    observation, with return 10. A random policy gets 10 * (1/3 + 1/2 + 1/4) / 3, about 3.6.
    """

    def __init__(self) -> None:
        """Creates the env."""
        self.observation_space = spaces.MultiDiscrete([3, 2, 4])
        self.action_space = spaces.MultiDiscrete([3, 2, 4])
        self._shown = np.zeros(3, np.int64)
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; the first observation is three random integers."""
        super().reset(seed=seed)
        self._elapsed = 0
        self._shown = self.np_random.integers(self.action_space.nvec)
        return self._shown, {}

    def step(self, action: NDArray[np.int64]) -> Step:
        """Rewards the integers that the action repeats; the next observation is three new random integers."""
        self._elapsed += 1
        reward = float(np.mean(action == self._shown))
        self._shown = self.np_random.integers(self.action_space.nvec)
        return self._shown, reward, self._elapsed >= 10, False, {}


class MultiBinaryMatch(gymnasium.Env[NDArray[np.int8], NDArray[np.int8]]):  # type: ignore[misc]
    """MultiBinary matching task: reward 1/4 for each of four observed bits that the action repeats.

    Episodes have 10 steps. The optimal policy repeats the observation, with return 10; a random policy gets 5.
    """

    def __init__(self) -> None:
        """Creates the env."""
        self.observation_space = spaces.MultiBinary(4)
        self.action_space = spaces.MultiBinary(4)
        self._shown = np.zeros(4, np.int8)
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; the first observation is four random bits."""
        super().reset(seed=seed)
        self._elapsed = 0
        self._shown = self.np_random.integers(0, 2, 4, dtype=np.int8)
        return self._shown, {}

    def step(self, action: NDArray[np.int8]) -> Step:
        """Rewards the bits that the action repeats; the next observation is four new random bits."""
        self._elapsed += 1
        reward = float(np.mean(action == self._shown))
        self._shown = self.np_random.integers(0, 2, 4, dtype=np.int8)
        return self._shown, reward, self._elapsed >= 10, False, {}


class AsymmetricBox(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):  # type: ignore[misc]
    """Continuous one-step bandit with asymmetric action bounds; reward: minus the squared distance to a target.

    Actions lie in [-1, 3] x [0, 0.5], the target is (2, 0.1), and episodes have one step. The best return is 0. Actions
    outside the bounds raise an error, because many simulators break on them.
    """

    def __init__(self) -> None:
        """Creates the env."""
        self.observation_space = spaces.Box(-1.0, 1.0, (1,))
        self.action_space = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([3.0, 0.5], np.float32))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; returns the initial observation."""
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: NDArray[np.float32]) -> Step:
        """Ends the episode; the reward is minus the squared distance to the target."""
        if np.any(action < self.action_space.low) or np.any(action > self.action_space.high):
            raise ValueError(f"action {action} is outside {self.action_space}")
        return np.zeros(1, np.float32), -float(np.sum((action - np.array([2.0, 0.1])) ** 2)), True, False, {}


class NestedTuple(gymnasium.Env[tuple[Any, ...], int]):  # type: ignore[misc]
    """Env with nested observations: a tuple of an integer and a dict, whose only entry is a tuple of floats and bits.

    The integer is one of three, and the action equal to it has a reward of 1; the other leaves are noise. Episodes have
    10 steps. The best return is 10; a random policy gets 10/3.
    """

    def __init__(self) -> None:
        """Creates the env."""
        noise = spaces.Dict(inner=spaces.Tuple((spaces.Box(-1.0, 1.0, (2,)), spaces.MultiBinary(2))))
        self.observation_space = spaces.Tuple((spaces.Discrete(3), noise))
        self.action_space = spaces.Discrete(3)
        self._shown = 0
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode with a random observation."""
        super().reset(seed=seed)
        self._elapsed = 0
        return self._show(), {}

    def step(self, action: int) -> Step:
        """Rewards an action that equals the observed integer, and samples the next observation."""
        self._elapsed += 1
        reward = float(action == self._shown)
        return self._show(), reward, self._elapsed >= 10, False, {"rights": reward}

    def _show(self) -> tuple[Any, ...]:
        self._shown = int(self.np_random.integers(3))
        floats = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        return self._shown, {"inner": (floats, self.np_random.integers(0, 2, 2, dtype=np.int8))}


class Crashing(ConstantReward):
    """`ConstantReward` that raises an exception in one step, for tests of error messages."""

    def __init__(self, crash_at: int, crash_worker: int | None = None, worker_index: int = 0) -> None:
        """Creates the env; step `crash_at` (from 1) of each episode raises an exception, in one worker or in all."""
        super().__init__()
        self._crash_at = crash_at if crash_worker in (None, worker_index) else 0

    @override
    def step(self, action: int) -> Step:
        """Returns reward 1; raises an exception in the step chosen by `crash_at`."""
        if self._elapsed + 1 == self._crash_at:
            raise RuntimeError(f"this world crashes at step {self._crash_at}")
        return super().step(action)


class Hanging(ConstantReward):
    """`ConstantReward` that sleeps in one step, for tests of timeouts."""

    def __init__(self, hang_at: int, seconds: float, hang_worker: int | None = None, worker_index: int = 0) -> None:
        """Creates the env; step `hang_at` (from 1) of each episode sleeps, in one worker or in all."""
        super().__init__()
        self._hang_at = hang_at if hang_worker in (None, worker_index) else 0
        self._seconds = seconds

    @override
    def step(self, action: int) -> Step:
        """Returns reward 1; in the step chosen by `hang_at`, sleeps before it returns."""
        if self._elapsed + 1 == self._hang_at:
            time.sleep(self._seconds)
        return super().step(action)


DT_S = 0.1
"""Duration of a step in seconds."""

DYNAMICS = np.array([[1.0, DT_S], [0.0, 1.0]])
"""Matrix A of the dynamics: maps position and velocity to those after a step."""

FORCE = np.array([0.0, DT_S])
"""Vector B of the dynamics: the effect of a unit force on position and velocity."""

FORCE_COST = 0.1
"""Cost of the squared force, relative to squared position and velocity."""

HORIZON = 100
"""Number of steps in an episode."""

BEST_COST = 6.263
"""Mean cost of an episode under the optimal policy, by the Riccati equation."""


class DoubleIntegrator(gymnasium.Env[Vector, Vector]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Double integrator LQR: a force u drives a mass, x = (position, velocity), to the origin in 100 steps of 0.1 s.

    A step costs x^T x + 0.1 u^2. Initial states are uniform in [-1, 1]^2. The optimal policy is linear, with a mean
    cost of 6.263 per episode.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-10.0, 10.0, (1,), np.float32)
        self._state = np.zeros(2)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Vector, dict[str, Any]]:
        """Samples the initial state uniformly from [-1, 1]^2."""
        super().reset(seed=seed)
        self._state, self._steps = self.np_random.uniform(-1.0, 1.0, 2), 0
        return self._state.astype(np.float32), {}

    def step(self, action: Vector) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Applies a force to the mass for one step of 0.1 s; the reward is minus the cost."""
        force = float(action[0])
        cost = float(self._state @ self._state) + FORCE_COST * force * force
        self._state = DYNAMICS @ self._state + FORCE * force
        self._steps += 1
        return self._state.astype(np.float32), -cost, False, self._steps >= HORIZON, {}


class RepeatAfterMe(gymnasium.Env[int, int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Memory task: repeat the random bit observed `delay` steps ago, for a reward of 1 if correct, else -1.

    The first `delay` steps have reward 0. The optimal return is `episode_len` - `delay`. A policy without memory gets 0
    on average, if the delay is not 0.
    """

    def __init__(self, delay: int = 2, episode_len: int = 101) -> None:
        """Creates the env; each observation must be repeated `delay` steps later."""
        self.observation_space = spaces.Discrete(2)
        self.action_space = spaces.Discrete(2)
        self._delay = delay
        self._episode_len = episode_len
        self._elapsed = 0
        self._shown: deque[int] = deque(maxlen=delay + 1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Starts an episode; the first observation is a random bit."""
        super().reset(seed=seed)
        self._elapsed = 0
        self._shown.clear()
        return self._show(), {}

    def step(self, action: int) -> Step:
        """Rewards an action that repeats the bit of `delay` steps ago; the next observation is a new random bit."""
        reward = 0.0
        if self._elapsed >= self._delay:
            reward = 1.0 if action == self._shown[0] else -1.0
        self._elapsed += 1
        return self._show(), reward, self._elapsed == self._episode_len, False, {}

    def _show(self) -> int:
        self._shown.append(int(self.np_random.integers(2)))
        return self._shown[-1]
