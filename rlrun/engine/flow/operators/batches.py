"""Concatenation of rollout fragments into training batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typing_extensions import override

from rlrun.engine.data.restored_rows import RestoredRows
from rlrun.engine.data.sample_batch import SampleBatch, concatenated
from rlrun.engine.flow.flow import StatefulOperator


class ConcatBatches(StatefulOperator):
    """Concatenates fragments along their env slots until a batch is full.

    Args:
        train_batch_size: Number of steps that fill a batch, over all env slots.
        exact: Whether batches have exactly `train_batch_size` steps; the remaining env slots of a fragment then go to
            the next batch. The fragment length must divide `train_batch_size`.
    """

    def __init__(self, train_batch_size: int, *, exact: bool = False) -> None:
        self.train_batch_size = train_batch_size
        self.exact = exact
        self._waiting: list[SampleBatch] = []
        self._restored = RestoredRows(free_axis=1)

    @override
    def settings(self) -> dict[str, Any]:
        return {"train_batch_size": self.train_batch_size}

    @override
    def __call__(self, item: SampleBatch) -> Iterable[SampleBatch]:
        """Returns the batches [T, B1 + B2 + ...] that the fragment filled: none, one or several."""
        self._restored.compare(item)
        self._waiting.append(item)
        if sum(batch.num_rows for batch in self._waiting) < self.train_batch_size:
            return []
        full = concatenated(self._waiting)
        self._waiting = []
        if not self.exact:
            return [full]
        length, columns = full["valid"].shape
        each = self.train_batch_size // length
        *cuts, rest = range(0, columns + 1, each)
        if rest < columns:
            self._waiting = [full.map(lambda leaf: leaf[:, rest:])]
        return [full.map(lambda leaf, start=start: leaf[:, start : start + each]) for start in cuts]

    @override
    def state(self) -> dict[str, Any]:
        """Returns the fragments that wait for the next batch, for checkpoints."""
        return {"waiting": [dict(batch) for batch in self._waiting]}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._waiting = [SampleBatch(batch) for batch in state["waiting"]]
        self._restored.load(self._waiting)
