"""Lending of a replay buffer's rows: a worker's next fragment is recorded where it will be stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

    def __init__(self, ring: ReplayRing) -> None:
        self._ring = ring
        self.latest: dict[int, Any] = {}
        self._lent: tuple[Any, int] = None, 0  # observations, and the row in which they begin

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
        streams, stores = self._ring.streams, self._ring.stores
        cursor = streams.shared(worker)
        if cursor is None or after is not self.latest.get(worker) or cursor.head + length >= streams.rows:
            return None
        if not all(isinstance(store, PlainStore) for name in LENT for store in leaves(stores[name])):
            return None
        head, slots = cursor.head, cursor.slots
        overwritten = self._ring.ready.retire(streams, worker, cursor, length + 1 + self._ring.reach)
        lent = SampleBatch()
        for name in LENT:
            rows = slice(head, head + length + (name == "obs"))
            lent[name] = map_tree(lambda store, rows=rows: store.lend(worker, rows, slots), stores[name])
        self._lent = lent["obs"], head
        return lent, overwritten

    def has_lent(self, observations: Any, row: int) -> bool:
        """Whether the column `obs` of a fragment is the memory that was lent last, and begins in the given row."""
        return observations is self._lent[0] and row == self._lent[1]
