"""Test envs with action masks and known optimal values; illegal actions raise an error."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.toys.known_optimum import Step

_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


class MaskedGrid(gymnasium.Env[dict[str, Any], int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Grid world with the goal in the last cell, reward -1 per step, and an action mask that forbids leaving the grid.

    Episodes start in a random cell other than the goal. The optimal return is minus the Manhattan distance to the goal,
    on average -size^2 / (size + 1). The final observation's mask allows no action.
    """

    def __init__(self, size: int = 5, max_steps: int = 100) -> None:
        """Creates a grid of `size` x `size` cells; episodes are truncated after `max_steps` steps."""
        self.observation_space = spaces.Dict(
            {"position": spaces.MultiDiscrete([size, size]), ACTION_MASK: spaces.MultiBinary(len(_MOVES))}
        )
        self.action_space = spaces.Discrete(len(_MOVES))
        self._size = size
        self._max_steps = max_steps
        self._position = np.zeros(2, np.int64)
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode in a random cell other than the goal."""
        super().reset(seed=seed)
        self._elapsed = 0
        self._position = np.array(divmod(int(self.np_random.integers(self._size**2 - 1)), self._size))
        return self._show(), {}

    def step(self, action: int) -> Step:
        """Moves one cell up, down, left or right."""
        if not self._mask()[action]:
            raise ValueError(f"action {action} is forbidden at {self._position.tolist()}")
        self._elapsed += 1
        self._position = self._position + _MOVES[action]
        return self._show(), -1.0, self._is_last(), self._elapsed >= self._max_steps, {}

    def _is_last(self) -> bool:
        return bool((self._position == self._size - 1).all())

    def _mask(self) -> NDArray[np.int8]:
        after = self._position + np.array(_MOVES)
        inside = ((after >= 0) & (after < self._size)).all(1)
        allowed: NDArray[np.int8] = (inside & (not self._is_last())).astype(np.int8)
        return allowed

    def _show(self) -> dict[str, Any]:
        return {"position": self._position, ACTION_MASK: self._mask()}


class MaskedMatch(gymnasium.Env[int, int]):  # type: ignore[misc]
    """Matching task with few legal actions: reward 1 for repeating the observed integer, in episodes of 10 steps.

    The method `action_masks` returns the legal actions: the correct one and others, sampled at each step. The best
    return is 10; a random legal policy gets 10 / `num_allowed`.
    """

    def __init__(self, num_actions: int = 40, num_allowed: int = 10) -> None:
        """Creates the env; `num_allowed` of `num_actions` actions are legal at each step."""
        self.observation_space = spaces.Discrete(num_actions)
        self.action_space = spaces.Discrete(num_actions)
        self._num_allowed = num_allowed
        self._shown = 0
        self._allowed = np.zeros(num_actions, np.bool_)
        self._elapsed = 0

    def action_masks(self) -> NDArray[np.bool_]:
        """Returns the mask of legal actions, [num_actions]."""
        return self._allowed.copy()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode: samples the observed integer, which the action must match, and the legal actions."""
        super().reset(seed=seed)
        self._elapsed = 0
        return self._show(), {}

    def step(self, action: int) -> Step:
        """Rewards an action that equals the observed integer; samples the next integer and the legal actions."""
        if not self._allowed[action]:
            raise ValueError(f"action {action} is forbidden")
        self._elapsed += 1
        reward = float(action == self._shown)
        return self._show(), reward, self._elapsed >= 10, False, {}

    def _show(self) -> int:
        drawn = self.np_random.permutation(self.action_space.n)[: self._num_allowed]
        self._shown = int(drawn[0])
        self._allowed[:] = False
        self._allowed[drawn] = True
        return self._shown


class MaskedConsole(gymnasium.Env[dict[str, Any], dict[str, Any]]):  # type: ignore[misc]
    """Env with nested masked actions: a Dict of a lever, two switches (Tuple), a lamp and a knob.

    Observation: a number from -1 to 1, and masks of the lever's three positions and of the switches. Reward: 1/3 for
    each correct part. The lever must be at its first allowed position; the lamp must be on if and only if the number is
    positive. The knob (from -2 to 2) must be within 1/2 of the number. Episodes have 10 steps, and the optimal return
    is 10.
    """

    def __init__(self) -> None:
        """Creates the env."""
        self.observation_space = spaces.Dict(
            {
                ACTION_MASK: spaces.MultiBinary(7),
                "number": spaces.Box(-1, 1, (1,)),
                "shown": spaces.Dict({"mask": spaces.MultiBinary(7)}),
            }
        )
        rest = spaces.Tuple([spaces.MultiDiscrete([2, 2]), spaces.MultiBinary(1), spaces.Box(-2, 2, (1,))])
        self.action_space = spaces.Dict({"lever": spaces.Discrete(3, start=1), "rest": rest})
        self._mask = np.zeros(7, np.int8)
        self._number = 0.0
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; samples the number and the action mask of the first observation."""
        super().reset(seed=seed)
        self._elapsed = 0
        return self._show(), {}

    def step(self, action: dict[str, Any]) -> Step:
        """Rewards the correct parts of the action; samples the number and the mask of the next observation."""
        lever, (switches, lamp, knob) = int(action["lever"]) - 1, action["rest"]
        if not self._mask[[lever, 3 + switches[0], 5 + switches[1]]].all():
            raise ValueError(f"lever {lever + 1} or switches {switches.tolist()} are forbidden")
        self._elapsed += 1
        right = [
            lever == self._mask[:3].argmax(),
            bool(lamp[0]) == (self._number > 0),
            abs(knob[0] - self._number) < 1 / 2,
        ]
        return self._show(), sum(right) / 3, self._elapsed >= 10, False, {}

    def _show(self) -> dict[str, Any]:
        self._mask = self.np_random.integers(0, 2, 7, np.int8)
        for first, last in ((0, 3), (3, 5), (5, 7)):
            self._mask[self.np_random.integers(first, last)] = 1
        self._number = float(self.np_random.uniform(-1, 1))
        number = np.array([self._number], np.float32)
        return {ACTION_MASK: self._mask, "number": number, "shown": {"mask": self._mask}}
