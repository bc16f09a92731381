"""Small worlds with action masks whose best value is known exactly; a forbidden action is an error in them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlrun.data.action_masks import ACTION_MASK
from rlrun.toys.known_optimum import Step

_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


class MaskedGrid(gymnasium.Env[dict[str, Any], int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """A square grid that ends at its last cell; each step costs 1, and the mask forbids steps off the grid.

    Episodes begin in any other cell, each as likely as the others. The best return is minus the Manhattan distance to
    the last cell, on average -size^2 / (size + 1). At the end nothing is allowed.
    """

    def __init__(self, size: int = 5, max_steps: int = 100) -> None:
        """Makes the world; its cells are `size` x `size`, and episodes are truncated after `max_steps` steps."""
        self.observation_space = spaces.Dict(
            {"position": spaces.MultiDiscrete([size, size]), ACTION_MASK: spaces.MultiBinary(len(_MOVES))}
        )
        self.action_space = spaces.Discrete(len(_MOVES))
        self._size = size
        self._max_steps = max_steps
        self._position = np.zeros(2, np.int64)
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode in any cell but the last."""
        super().reset(seed=seed)
        self._elapsed = 0
        self._position = np.array(divmod(int(self.np_random.integers(self._size**2 - 1)), self._size))
        return self._show(), {}

    def step(self, action: int) -> Step:
        """Goes up, down, left or right."""
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
    """Shows a whole number and pays 1 for the action that repeats it, in episodes of 10 steps; few actions are allowed.

    Its method `action_masks` returns which: the right one and others drawn at each step. The best return is 10, and 10
    / `num_allowed` that of a policy that takes any allowed action.
    """

    def __init__(self, num_actions: int = 40, num_allowed: int = 10) -> None:
        """Makes the world; `num_allowed` of its `num_actions` actions are allowed."""
        self.observation_space = spaces.Discrete(num_actions)
        self.action_space = spaces.Discrete(num_actions)
        self._num_allowed = num_allowed
        self._shown = 0
        self._allowed = np.zeros(num_actions, np.bool_)
        self._elapsed = 0

    def action_masks(self) -> NDArray[np.bool_]:
        """Returns which actions are allowed, [A]."""
        return self._allowed.copy()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Shows the first number."""
        super().reset(seed=seed)
        self._elapsed = 0
        return self._show(), {}

    def step(self, action: int) -> Step:
        """Pays for the right action and shows the next number."""
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
    """A lever, two switches, a lamp and a knob: actions are a Dict with a Tuple in it, and the mask forbids choices.

    Shows a number from -1 to 1 and what is allowed of the lever's three places and of the switches. It pays 1/3 each
    for the first allowed place of the lever, the lamp on where the number is positive, and the knob (from -2 to 2)
    within 1/2 of the number. Episodes have 10 steps, and the best return is 10.
    """

    def __init__(self) -> None:
        """Makes the world."""
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
        """Shows the first number and mask."""
        super().reset(seed=seed)
        self._elapsed = 0
        return self._show(), {}

    def step(self, action: dict[str, Any]) -> Step:
        """Pays for what is right and shows the next number and mask."""
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
