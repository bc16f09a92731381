"""Scripted agents of the worlds in this room: functions from an observation to an action."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.action_masks import ACTION_MASK
from rlrun.worlds.board_games import OBSERVATION

_LINES = (0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124)
"""The lines of tic-tac-toe as bits of the cells."""
_FULL = 0o777


class RandomLegal:
    """Takes any action that the action mask allows, each as likely as the others.

    Args:
        seed: Seed of what it draws.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def __call__(self, observation: Mapping[str, Any]) -> int:
        """Returns an action.

        Raises:
            ValueError: The observation holds no action mask.
        """
        if not isinstance(observation, Mapping) or ACTION_MASK not in observation:
            raise ValueError(f"RandomLegal moves by the {ACTION_MASK} of a Dict observation, and there is none")
        return int(self._generator.choice(np.flatnonzero(observation[ACTION_MASK])))


def perfect_tic_tac_toe(observation: Mapping[str, Any]) -> int:
    """Plays tic-tac-toe by minimax: the first of the cells with the best result against a perfect opponent."""
    own, other = (_bits(observation[OBSERVATION][..., plane]) for plane in (0, 1))
    return max(_free_cells(own | other), key=lambda cell: -_value(other, own | 1 << cell))


@cache
def _value(own: int, other: int) -> int:
    """Returns what a game is worth to the player whose turn it is, if both play perfectly: 1, 0 or -1."""
    if any(other & line == line for line in _LINES):
        return -1
    return max((-_value(other, own | 1 << cell) for cell in _free_cells(own | other)), default=0)


def _free_cells(taken: int) -> list[int]:
    return [cell for cell in range(9) if not taken >> cell & 1]


def _bits(plane: NDArray[Any]) -> int:
    return sum(1 << int(cell) for cell in np.flatnonzero(plane))


class OnePlyConnectFour:
    """Plays connect four with one move in mind: it wins if it can, else blocks if it must, else takes any legal column.

    Args:
        seed: Seed of what it draws.
    """

    def __init__(self, seed: int) -> None:
        self._random = RandomLegal(seed)

    def __call__(self, observation: Mapping[str, Any]) -> int:
        """Returns a column."""
        planes = observation[OBSERVATION].astype(np.bool_)
        taken = planes.any(-1)
        for plane in (0, 1):
            for column in np.flatnonzero(observation[ACTION_MASK]).tolist():
                row = int(np.count_nonzero(~taken[:, column])) - 1
                pieces = planes[..., plane].copy()
                pieces[row, column] = True
                if _has_four(pieces):
                    return column
        return self._random(observation)


class GreedyForager:
    """Goes to the nearest food that it sees, and anywhere where it sees none.

    Args:
        seed: Seed of what it draws.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def __call__(self, observation: Mapping[str, Any]) -> int:
        """Returns an action of a forager: stay, up, down, left, right."""
        window = observation["window"]
        food = np.argwhere(window) - len(window) // 2
        if not len(food):
            return int(self._generator.integers(1, 5))
        down, right = food[np.abs(food).sum(1).argmin()].tolist()
        if down == right == 0:
            return 0
        if abs(down) > abs(right):
            return 2 if down > 0 else 1
        return 4 if right > 0 else 3


def _has_four(pieces: NDArray[np.bool_]) -> bool:
    """Whether four pieces are in a row, [6, 7]: lines of bits, of which each row of the board has 8."""
    bits = int.from_bytes(np.packbits(pieces, axis=1).tobytes(), "big")
    return any(bits & bits >> step & bits >> 2 * step & bits >> 3 * step for step in (1, 7, 8, 9))
