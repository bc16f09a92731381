"""Steps in a replay buffer that can be sampled, because all steps of their n-step transitions are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.replay.columns import FLAGS
from rlrun.engine.replay.n_step import n_step_transitions
from rlrun.engine.replay.stores import Indices
from rlrun.engine.replay.streams import Cursor, Streams

NO_STEPS: Indices = np.zeros(0, np.int64)


class ReadySteps:
    """Set of the steps in a replay buffer that can be sampled, with their n-step transitions.

    Args:
        n_step: Maximum length n of an n-step transition.
        gamma: Discount factor.

    Attributes:
        number: Number of steps that can be sampled.
        flags: Mask of the steps that can be sampled, [workers, rows, env slots].
    """

    def __init__(self, n_step: int, gamma: float) -> None:
        self.number = 0
        self.flags = np.zeros((0, 0, 0), np.bool_)
        self._n_step = n_step
        self._gamma = gamma

    def allocate(self, shape: tuple[int, int, int]) -> None:
        """Allocates the mask of steps that can be sampled, [workers, rows, env slots]; at first it is empty."""
        self.flags = np.zeros(shape, np.bool_)

    def retire(self, streams: Streams, worker: int, cursor: Cursor, number: int) -> Indices:
        """Removes the steps stored in rows that the next write will overwrite.

        Args:
            streams: Converts workers, rows and env slots to flat indices.
            worker: Index of the worker in the buffer, from 0.
            cursor: Write position of the env slots.
            number: Number of rows that will be written.

        Returns:
            Indices of the removed steps.
        """
        first, slots = cursor.head, cursor.slots
        if cursor.filled < streams.rows and first + number <= streams.rows:
            return NO_STEPS  # these rows were never written
        rows = streams.span(first, number)
        where, offsets = self.flags[worker, rows, slots].nonzero()
        if not len(where):
            return NO_STEPS
        self.number -= len(where)
        self.flags[worker, rows, slots] = False
        return streams.numbered(worker, (first + where) % streams.rows, offsets + slots.start)

    def add(
        self, streams: Streams, stores: Mapping[str, Any], worker: int, slots: slice, first: int, number: int
    ) -> Indices:
        """Computes the n-step transitions of newly stored rows, and adds the steps that can now be sampled.

        Args:
            streams: Converts workers, rows and env slots to flat indices.
            stores: Storage of each column, by name.
            worker: Index of the worker in the buffer, from 0.
            slots: Env slots of the worker.
            first: Index of the first new row.
            number: Number of new rows.

        Returns:
            Indices of the steps that have become available for sampling.
        """
        rows = slice(first, first + number) if first + number <= streams.rows else streams.row_numbers(first, number)
        if self._n_step == 1:
            new = stores["valid"].values[worker, rows, slots]
            self.flags[worker, rows, slots] = new
        else:
            own = {name: stores[name].values[worker, rows, slots] for name in ("rewards", *FLAGS)}
            found = n_step_transitions(**own, gamma=self._gamma, n_step=self._n_step)
            stores["n_step_rewards"].values[worker, rows, slots] = found.rewards
            stores["discounts"].values[worker, rows, slots] = found.discounts
            stores["steps"].values[worker, rows, slots] = found.steps
            new = found.complete & ~self.flags[worker, rows, slots]
            self.flags[worker, rows, slots] |= new
        where, offsets = new.nonzero()
        self.number += where.size
        return streams.numbered(worker, (first + where) % streams.rows, offsets + slots.start)

    def indices(self) -> Indices:
        """Indices of all steps that can be sampled, ascending."""
        found: Indices = np.flatnonzero(self.flags)
        return found

    def has(self, indices: Indices) -> NDArray[np.bool_]:
        """Returns whether the step at each given index can be sampled, as a mask."""
        ready: NDArray[np.bool_] = self.flags.reshape(-1).take(indices)
        return ready

    def load(self, flags: NDArray[np.bool_]) -> None:
        """Restores the mask of the steps that can be sampled, [workers, used rows, env slots], from a checkpoint."""
        self.flags[:, : flags.shape[1]] = flags
        self.number = int(np.count_nonzero(self.flags))
