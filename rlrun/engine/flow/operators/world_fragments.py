"""Operators on multi-agent fragments: extraction of one policy's batch, and concatenation over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from rlrun.engine.data.restored_rows import RestoredRows
from rlrun.engine.data.sample_batch import CLOSING_COLUMNS, HISTORY, SampleBatch
from rlrun.engine.data.tree import map_tree, named_leaves
from rlrun.engine.flow.flow import Operator, StatefulOperator


class SelectPolicy(Operator):
    """Extracts one policy's batch from a multi-agent fragment, which is a dict of batches by policy name."""

    def __init__(self, policy: str) -> None:
        self.policy = policy

    @override
    def settings(self) -> dict[str, Any]:
        return {"policy": self.policy}

    @override
    def __call__(self, item: Mapping[str, Any]) -> SampleBatch:
        """Returns the selected policy's batch."""
        return SampleBatch(item[self.policy])


class JoinFragments(StatefulOperator):
    """Concatenates successive fragments of a worker along time; takes pairs (worker index, fragment).

    With this operator, one algorithm can learn from short fragments while another learns from longer ones. Fragments
    that wait to be joined are dropped if the worker's next fragment does not start where they end, for example after a
    restart of the worker.

    Args:
        fragments: Number of fragments to join.
        normalized: Whether observations are normalized, with different statistics in each fragment; the ends of
            fragments then cannot be compared, and no fragment is dropped.
    """

    def __init__(self, fragments: int, *, normalized: bool) -> None:
        self.fragments = fragments
        self.normalized = normalized
        self._waiting: dict[int | None, list[SampleBatch]] = {}
        self._restored = RestoredRows()

    @override
    def settings(self) -> dict[str, Any]:
        return {"fragments": self.fragments}

    @override
    def __call__(self, item: tuple[int | None, SampleBatch]) -> Iterable[SampleBatch]:
        """Returns the joined fragment [T1 + T2 + ..., B] once the last part has arrived; nothing otherwise."""
        worker, fragment = item
        self._restored.compare(fragment)
        waiting = self._waiting.setdefault(worker, [])
        if waiting and not self.normalized and not _is_contiguous(waiting[-1], fragment):
            waiting.clear()
        waiting.append(fragment)
        if len(waiting) < self.fragments:
            return []
        del self._waiting[worker]
        return [_joined(waiting)]

    @override
    def state(self) -> dict[str, Any]:
        """Returns, for each worker, the fragments that wait to be joined with later ones, for checkpoints."""
        return {"waiting": [[worker, [dict(part) for part in parts]] for worker, parts in self._waiting.items()]}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._waiting = {worker: [SampleBatch(part) for part in parts] for worker, parts in state["waiting"]}
        self._restored.load(part for parts in self._waiting.values() for part in parts)


def _is_contiguous(before: SampleBatch, after: SampleBatch) -> bool:
    """Whether two fragments are contiguous: in valid slots, the second begins at the first's closing observations."""
    begins = after["valid"][0]
    observed = zip(named_leaves(before["obs"]), named_leaves(after["obs"]), strict=True)
    return all(np.array_equal(last[-1][begins], first[0][begins], equal_nan=True) for (_, last), (_, first) in observed)


def _joined(parts: list[SampleBatch]) -> SampleBatch:
    """Concatenates fragments along time; closing rows come from the last fragment.

    The history column comes from the first fragment.
    """

    def join(*leaves: Any) -> Any:
        return np.concatenate(leaves)

    def join_closing(*leaves: Any) -> Any:
        return np.concatenate([*(leaf[:-1] for leaf in leaves[:-1]), leaves[-1]])

    first, *others = parts
    before = {name: first[name] for name in (HISTORY,) if name in first}
    return SampleBatch(
        {
            name: map_tree(
                join_closing if name in CLOSING_COLUMNS else join, column, *(other[name] for other in others)
            )
            for name, column in first.items()
            if name not in before
        },
        **before,
    )
