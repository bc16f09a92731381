"""Lends a replay buffer's rows to a worker, which records its next fragment where it will be stored."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.replay.columns import FLAGS
from rlrun.engine.replay.stores import Indices, PlainStore

if TYPE_CHECKING:
    from rlrun.engine.replay.ring import ReplayRing

LENT = ("obs", "actions", *FLAGS)
"""Columns of a fragment whose recorded form equals their stored form."""


class RowLender:
    """Lends the rows of a replay ring in which a worker's next fragment will be stored.

    Steps in lent rows cannot be sampled. When the fragment is inserted, columns that are still the lent arrays are not
    copied; columns that operators have replaced are copied. A fragment that was recorded elsewhere is stored as usual.

    Args:
        ring: The ring.
    """

    def __init__(self, ring: ReplayRing) -> None:
        self._ring = ring
        self._columns: list[tuple[str, Any]] | None = None

    def lend(self, worker: int, length: int, after: Any, actions: Any) -> tuple[SampleBatch, Indices] | None:
        """Lends memory for a worker's next fragment of T steps.

        Args:
            worker: Index of the worker in the buffer, from 0.
            length: Steps in the fragment, T.
            after: The column `obs` of the fragment that the next one continues.
            actions: The column `actions` of that fragment, [T, B, ...].

        Returns:
            The columns `LENT` (`obs` has T + 1 rows, the first of which is set), and the indices that can no longer be
            sampled. None if the rows wrap around, if the fragment to continue was not the last one inserted, or if a
            column is stored in a different form.
        """
        streams, loan = self._ring.streams, self._ring.loan
        cursor = streams.shared[worker]
        if cursor is None or after is not loan.latest[worker] or cursor.head + length >= streams.rows:
            return None
        if self._columns is None:
            self._columns = self._stored_as_recorded(actions)
        if not self._columns:
            return None
        head, slots = cursor.head, cursor.slots
        overwritten = self._ring.ready.retire(streams, worker, cursor, length + 1 + self._ring.reach)
        own, within = (worker, slice(head, head + length + 1), slots), (worker, slice(head, head + length), slots)
        lent = SampleBatch()
        loan.columns, loan.row = lent, head
        for name, tree in self._columns:
            where = own if name == "obs" else within
            is_array = tree.__class__ is np.ndarray
            lent[name] = tree[where] if is_array else map_tree(itemgetter(where), tree)
        return lent, overwritten

    def _stored_as_recorded(self, actions: Any) -> list[tuple[str, Any]]:
        """Returns the memory of the columns; none if frames are stored once, or if operators change action dtypes."""
        stores = self._ring.stores
        if not all(isinstance(store, PlainStore) for name in LENT for store in leaves(stores[name])):
            return []
        columns = {name: map_tree(lambda each: each.values, stores[name]) for name in LENT}
        stored = [(leaf.dtype, leaf.shape[3:]) for leaf in leaves(columns["actions"])]
        return [*columns.items()] if stored == [(leaf.dtype, leaf.shape[2:]) for leaf in leaves(actions)] else []
