"""Assembly of complete episodes from rollout fragments, whose boundaries may lie within episodes."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.preferences.comparisons import check_length
from rlrun.engine.data.restored_rows import RestoredRows
from rlrun.engine.data.sample_batch import CLOSING_COLUMNS, SampleBatch, concatenated_rows
from rlrun.engine.data.tree import map_tree
from rlrun.engine.flow.flow import StatefulOperator


class WholeEpisodes(StatefulOperator):
    """Joins the parts of episodes until they end, and emits batches [L, N] of N complete episodes, one per column.

    Inputs are pairs (worker index, rollout fragment [T, B]). Batches have the same columns as fragments; entries after
    an episode's end are empty.

    Args:
        length: L, maximum number of steps of an episode.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._begun: dict[int | None, dict[int, SampleBatch]] = {}
        self._restored = RestoredRows()

    @override
    def settings(self) -> dict[str, Any]:
        return {"length": self.length}

    @override
    def __call__(self, item: tuple[int | None, SampleBatch]) -> list[SampleBatch]:
        """Returns a batch of the episodes that end in a fragment; [] if no episode ends.

        Raises:
            UsageError: An episode has more than L steps.
        """
        worker, fragment = item
        rows, begun = fragment.closed(), self._begun.setdefault(worker, {})
        found: list[SampleBatch] = []
        for slot in range(fragment["valid"].shape[1]):
            own = rows.map(lambda leaf, slot=slot: leaf[:, slot])
            self._restored.compare(own)
            *whole, rest = _cut(own)
            if slot in begun:
                first = whole or [rest]
                first[0] = concatenated_rows([begun.pop(slot), first[0]])
                rest = rest if whole else first[0]
            found += whole
            if len(rest["valid"]):
                begun[slot] = rest.map(np.array)
        return [self._batch(found)] if found else []

    def _batch(self, episodes: Sequence[SampleBatch]) -> SampleBatch:
        """Pads episodes, each with the row of its final observation, to a batch [L, N]."""
        check_length(max(len(episode["valid"]) for episode in episodes) - 1, self.length)

        def padded(rows: int, *leaves: NDArray[Any]) -> NDArray[Any]:
            batch = np.zeros((rows, len(leaves), *leaves[0].shape[1:]), leaves[0].dtype)
            for column, leaf in enumerate(leaves):
                batch[: len(leaf), column] = leaf[:rows]
            return batch

        columns = {}
        for name, first in episodes[0].items():
            rows = self.length + (name in CLOSING_COLUMNS)
            others = [episode[name] for episode in episodes[1:]]
            columns[name] = map_tree(lambda *leaves, rows=rows: padded(rows, *leaves), first, *others)
        return SampleBatch(columns)

    @override
    def state(self) -> dict[str, Any]:
        """Returns the incomplete episodes, by worker and env."""
        return {
            "begun": [
                [worker, slot, dict(rows)] for worker, slots in self._begun.items() for slot, rows in slots.items()
            ]
        }

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._begun = {}
        for worker, slot, rows in state["begun"]:
            self._begun.setdefault(worker, {})[int(slot)] = SampleBatch(rows)
        self._restored.load(rows for _, _, rows in state["begun"])


def _cut(rows: SampleBatch) -> list[SampleBatch]:
    """Cuts the rows [T + 1, ...] of a slot after the final observation of each episode that ends; the rest is last."""
    valid, pieces, begin = rows["valid"], [], 0
    for end in (valid & (rows["terminateds"] | rows["truncateds"])).nonzero()[0].tolist():
        first = begin + int(valid[begin:].argmax())
        pieces.append(rows.map(itemgetter(slice(first, end + 2))))
        begin = end + 1
    is_left = valid[begin:].any()
    first = begin + int(valid[begin:].argmax()) if is_left else len(valid)
    return [*pieces, rows.map(itemgetter(slice(first, len(valid) - 1)))]
