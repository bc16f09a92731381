"""Recorded episodes as concatenated rows (steps and final observations), or as time-major arrays (NumPy)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.tree import map_tree
from rlrun.engine.functional.returns import Doubles, discounted_returns
from rlrun.engine.messages.errors import UsageError

Rows = NDArray[np.int64]

ROWS_AT_ONCE = 4096
"""Number of rows that are read at once."""


@dataclass(frozen=True)
class RecordedEpisodes:
    """Recorded episodes as N concatenated rows: one for each step, and one for each final observation.

    Attributes:
        observations: Function that gathers (or reads from files) the raw observations of rows [B], a tree of [B, ...].
        actions: Actions in the env's units, a tree of [N, ...].
        rewards: Rewards, [N].
        terminateds: Whether the step terminated its episode, [N].
        valid: Whether the row holds a step, [N]; False for final observations.
        log_probs: Log-probabilities of the actions under the behavior policy, in the units of `actions`, [N]; None if
            unknown.
    """

    observations: Callable[[Rows], Any]
    actions: Any
    rewards: Doubles
    terminateds: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    log_probs: Doubles | None = None

    def __post_init__(self) -> None:
        """Validates that there are episodes, and that each has a step.

        Raises:
            UsageError: There are no episodes, or one has no steps.
        """
        if not self.valid.any() or self.valid[-1] or (self.lengths == 0).any():
            raise UsageError(
                "off-policy evaluation needs complete episodes of at least one step, each with its final row"
            )

    @property
    def num_rows(self) -> int:
        """Number of rows, N."""
        return len(self.valid)

    def acted(self, rows: Rows) -> Any:
        """Gathers the recorded actions of given rows, a tree of [B, ...]."""
        return map_tree(lambda leaf: leaf[rows], self.actions)

    @cached_property
    def final_rows(self) -> Rows:
        """Row of each episode's final observation, [E]."""
        return np.flatnonzero(~self.valid)

    @cached_property
    def first_rows(self) -> Rows:
        """Row of each episode's first step, [E]."""
        return np.concatenate([[0], self.final_rows[:-1] + 1])

    @cached_property
    def lengths(self) -> Rows:
        """Number of steps of each episode, [E]."""
        return self.final_rows - self.first_rows

    @property
    def num_episodes(self) -> int:
        """Number of episodes, E."""
        return len(self.final_rows)

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """Whether each episode terminated, [E]; all others were truncated."""
        ended: NDArray[np.bool_] = self.terminateds[self.final_rows - 1]
        return ended

    @cached_property
    def episode_of_row(self) -> Rows:
        """Index of each row's episode, [N]."""
        return np.repeat(np.arange(self.num_episodes), self.lengths + 1)

    def time_major(self, column: NDArray[Any]) -> NDArray[Any]:
        """Arranges a column of N rows by T steps and E episodes, [T, E], with zeros after an episode's last step."""
        times = np.arange(self.lengths.max())[:, None]
        rows = self.first_rows + np.minimum(times, self.lengths - 1)
        return np.where(times < self.lengths, column[rows], 0)

    def returns_to_go(self, gamma: float) -> Doubles:
        """Discounted sum of the rewards from each step to its episode's end, [N]."""
        return discounted_returns(self.rewards, self.first_rows, self.lengths, gamma)


def blocks(rows: Rows) -> Iterator[Rows]:
    """Yields row indices in blocks of at most `ROWS_AT_ONCE`."""
    return (rows[start : start + ROWS_AT_ONCE] for start in range(0, len(rows), ROWS_AT_ONCE))
