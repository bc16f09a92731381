"""Sums of rewards and steps over episodes that may span several fragments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.envs.step_columns import finite_number
from rlrun.engine.envs.vector_env import NO_COLUMNS
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.rollout.rollout import Episode

LastInfos = Mapping[tuple[int, int], dict[str, Any]]
"""Infos of the steps that ended episodes, by (t, env slot)."""


NOBODY: Mapping[tuple[int, int], str] = {}

MOST_INFO_NUMBERS = 1000
"""Maximum number of info entries reported as metrics, since each becomes a column of all results."""


class EpisodeSums:
    """Running return and length of the current episode in each of B env slots.

    Attributes:
        returns: Sum of raw rewards in the current episode, [B].
        lengths: Number of steps in the current episode, [B].
        columns: Sums of additional per-step numbers by name, each [B].
    """

    def __init__(self, slots: int, columns: Iterable[str] = ()) -> None:
        self.returns = np.zeros(slots)
        self.lengths = np.zeros(slots, np.int64)
        self.columns = {name: np.zeros(slots) for name in columns}

    def of(self, slot: int) -> dict[str, Any]:
        """Returns the running return and length of one env slot's episode, as plain data for a checkpoint."""
        return {
            "episode_return": float(self.returns[slot]),
            "episode_length": int(self.lengths[slot]),
            "episode_columns": {name: float(sums[slot]) for name, sums in self.columns.items()},
        }

    def load(self, saved: Sequence[Mapping[str, Any]], kept: NDArray[np.bool_]) -> None:
        """Restores the running returns and lengths of all env slots from the results of `of`.

        Args:
            saved: Data that `of` returned, by slot.
            kept: Whether a slot's episode continues, [B]; the other slots begin new episodes.

        Raises:
            ValueError: A saved length is not a non-negative integer.
        """
        self.returns = np.where(kept, [float(own["episode_return"]) for own in saved], 0.0)
        self.lengths = np.where(kept, [as_count(own["episode_length"]) for own in saved], 0)
        for name, sums in self.columns.items():  # a column missing in the saved state starts at 0
            earlier = [float(own.get("episode_columns", {}).get(name, 0.0)) for own in saved]
            sums[:] = np.where(kept, earlier, 0.0)

    def add(
        self,
        rewards: NDArray[np.float64],
        ends: NDArray[np.bool_],
        steps: NDArray[np.bool_],
        infos: LastInfos,
        agents: Mapping[tuple[int, int], str] = NOBODY,
        columns: Mapping[str, NDArray[np.float64]] = NO_COLUMNS,
    ) -> list[Episode]:
        """Adds the rewards of T steps in B env slots; returns the episodes that ended, in the order of their ends.

        Args:
            rewards: Raw rewards, [T, B]; 0 where no step was taken.
            ends: Whether the slot's episode ended, [T, B].
            steps: Whether a step was taken, [T, B].
            infos: Infos of the steps that ended episodes.
            agents: Names of the agents whose episodes ended, by (step, slot); empty for single-agent envs.
            columns: Additional numbers by name, each [T, B]; 0 where there is no step.
        """
        if not np.add.reduce(ends, None):  # what `sum` calls; twice as fast for a few steps
            self.returns += np.add.reduce(rewards)
            self.lengths += np.add.reduce(steps)
            if columns:
                for name, numbers in columns.items():
                    self.columns[name] += numbers.sum(axis=0)
            return []
        returns, latest = sums_within_episodes(rewards, ends)
        lengths = steps.cumsum(axis=0)
        sums = {name: sums_within_episodes(numbers, ends) for name, numbers in columns.items()}
        episodes = []
        for t, slot in zip(*ends.nonzero(), strict=True):
            episodes.append(
                Episode(
                    float(self.returns[slot] + returns[t, slot]),
                    int(self.lengths[slot] + lengths[t, slot]),
                    numbers_in(infos.get((int(t), int(slot)), {})) if infos else {},
                    agents.get((int(t), int(slot)), "") if agents else "",
                    {name: float(self.columns[name][slot] + own[t, slot]) for name, (own, _) in sums.items()},
                )
            )
            self.returns[slot], self.lengths[slot] = 0.0, -lengths[t, slot]
            for own in self.columns.values():
                own[slot] = 0.0
        self.returns += latest
        self.lengths += lengths[-1]
        for name, (_, latest_sums) in sums.items():
            self.columns[name] += latest_sums
        return episodes


def sums_within_episodes(
    numbers: NDArray[np.float64], ends: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums numbers over each episode, for T steps in B env slots.

    Returns the sums at the episodes' last steps, with 0 elsewhere, [T, B], and the sums since each slot's last episode
    end, [B]. A difference of cumulative sums would lose digits after a huge number in an earlier episode.

    Args:
        numbers: Summands, [T, B].
        ends: Whether the slot's episode ended, [T, B].

    Examples:
        >>> sums, rest = sums_within_episodes(np.array([[-1e17], [1.0], [2.0]]), np.array([[True], [False], [False]]))
        >>> sums.T, rest
        (array([[-1.e+17,  0.e+00,  0.e+00]]), array([3.]))
    """
    begins = np.empty(ends.T.shape, np.bool_)  # [B, T]: whether a part of an episode begins at the step
    begins[:, 0], begins[:, 1:] = True, ends.T[:, :-1]
    parts = np.add.reduceat(numbers.T.ravel(), begins.ravel().nonzero()[0])
    part = begins.cumsum().reshape(begins.shape) - 1
    sums = np.where(ends.T, parts[part], 0.0).T
    return sums, np.where(ends[-1], 0.0, parts[part[:, -1]])


def numbers_in(info: Mapping[str, Any]) -> dict[str, float]:
    """Extracts the finite numbers at the top level of an info dict as metrics, with keys converted to text.

    At most `MOST_INFO_NUMBERS` + 1 numbers are returned: one more than allowed, so that the
    caller can tell that there are too many.

    Examples:
        >>> numbers_in({"x": 1, 3: 2.5, "name": "a", "huge": 10**400})
        {'x': 1.0, '3': 2.5}
    """
    numbers = ((str(name), finite_number(value)) for name, value in info.items())
    found = ((name, number) for name, number in numbers if number is not None)
    return dict(islice(found, MOST_INFO_NUMBERS + 1))


def too_many_numbers(left_out: str) -> str:
    """Warning that infos contain more than `MOST_INFO_NUMBERS` numbers.

    Args:
        left_out: Name of the first number that does not become a metric.
    """
    return f"infos contain more than {MOST_INFO_NUMBERS:,} numbers: {left_out!r} and later ones do not become metrics"
