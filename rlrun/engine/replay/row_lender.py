"""Lending of a replay buffer's rows: a worker's next fragment is recorded where it will be stored."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.replay.columns import FLAGS
from rlrun.engine.replay.stores import Indices, PlainStore

if TYPE_CHECKING:
    from rlrun.engine.replay.ring import ReplayRing

LENT = ("obs", "actions", *FLAGS)
"""Columns of a fragment that are recorded as they are stored."""


class RowLender:
    """Lends the rows of a replay ring in which a worker's next fragment will be stored.

    Steps in lent rows cannot be sampled. When the fragment is inserted, columns that are the lent arrays themselves are
    not copied; others, which operators have replaced, are. A fragment that is recorded elsewhere is stored as ever.

    Args:
        ring: The ring.

    Attributes:
        latest: By worker, the column `obs` of the fragment that was inserted last.
    """

    _NOTHING: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, ring: ReplayRing) -> None:
        self._ring = ring
        self.latest: dict[int, Any] = {}
        self._columns: dict[str, Any] | None = None
        self._lent = SampleBatch()
        self._row = 0  # in which the lent rows begin

    def lend(self, worker: int, length: int, after: Any) -> tuple[SampleBatch, Indices] | None:
        """Lends memory for a worker's next fragment of T steps.

        Args:
            worker: Index of the worker in the buffer, from 0.
            length: Steps in the fragment, T.
            after: The column `obs` of the fragment that the next one continues.

        Returns:
            The columns `LENT`, of which `obs` has T + 1 rows and the first one set, and the indices that can no longer
            be sampled. None if the rows wrap around, if that fragment was not inserted last, or if a column is not
            stored as it is.
        """
        streams = self._ring.streams
        cursor = streams.shared(worker)
        if cursor is None or after is not self.latest.get(worker) or cursor.head + length >= streams.rows:
            return None
        if self._columns is None:
            stores = self._ring.stores
            plain = all(isinstance(store, PlainStore) for name in LENT for store in leaves(stores[name]))
            self._columns = {name: map_tree(lambda each: each.values, stores[name]) for name in LENT} if plain else {}
        if not self._columns:
            return None
        head, slots = cursor.head, cursor.slots
        overwritten = self._ring.ready.retire(streams, worker, cursor, length + 1 + self._ring.reach)
        own, within = (worker, slice(head, head + length + 1), slots), (worker, slice(head, head + length), slots)
        for name, tree in self._columns.items():
            where = own if name == "obs" else within
            self._lent[name] = tree[where] if isinstance(tree, np.ndarray) else map_tree(itemgetter(where), tree)
        self._row = head
        return self._lent, overwritten

    def lent_at(self, row: int) -> Mapping[str, Any]:
        """Returns the columns that were lent last, if they begin in the given row; otherwise none."""
        return self._lent if row == self._row else self._NOTHING
