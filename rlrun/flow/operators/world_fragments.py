"""Fragments of worlds of many agents, on their way to the algorithm of one policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from rlrun.data.restored_rows import RestoredRows
from rlrun.data.sample_batch import CLOSING_COLUMNS, HISTORY, SampleBatch
from rlrun.data.tree import map_tree, named_leaves
from rlrun.flow.flow import Operator, StatefulOperator


class SelectPolicy(Operator):
    """Takes one policy's batch out of a fragment of several policies."""

    def __init__(self, policy: str) -> None:
        self.policy = policy

    @override
    def settings(self) -> dict[str, Any]:
        return {"policy": self.policy}

    @override
    def __call__(self, item: Mapping[str, Any]) -> SampleBatch:
        """Returns its batch."""
        return SampleBatch(item[self.policy])


class JoinFragments(StatefulOperator):
    """Puts successive fragments of a worker one behind the other; works on pairs of worker and fragment.

    So one algorithm can learn from each short fragment while another one beside it waits for longer ones. Where a
    fragment does not go on where the last one ended, as behind a worker that was lost, what waits is dropped.

    Args:
        fragments: How many fragments become one.
        normalized: Whether observations are shifted and scaled, by other moments in each fragment: then a break is not
            noticed, since it is known by the observations.
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
        """Returns the joined fragment [T1 + T2 + ..., B], if this was the last one that it lacked."""
        worker, fragment = item
        self._restored.compare(fragment)
        waiting = self._waiting.setdefault(worker, [])
        if waiting and not self.normalized and not _goes_on(waiting[-1], fragment):
            waiting.clear()
        waiting.append(fragment)
        if len(waiting) < self.fragments:
            return []
        del self._waiting[worker]
        return [_joined(waiting)]

    @override
    def state(self) -> dict[str, Any]:
        """Returns the fragments that wait."""
        return {"waiting": [[worker, [dict(part) for part in parts]] for worker, parts in self._waiting.items()]}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._waiting = {worker: [SampleBatch(part) for part in parts] for worker, parts in state["waiting"]}
        self._restored.load(part for parts in self._waiting.values() for part in parts)


def _goes_on(before: SampleBatch, after: SampleBatch) -> bool:
    """Whether what a fragment begins with is what the one before it closed with, in all slots that hold something."""
    begins = after["valid"][0]
    observed = zip(named_leaves(before["obs"]), named_leaves(after["obs"]), strict=True)
    return all(np.array_equal(last[-1][begins], first[0][begins], equal_nan=True) for (_, last), (_, first) in observed)


def _joined(parts: list[SampleBatch]) -> SampleBatch:
    """Returns fragments behind each other; of columns with a closing row the last one's closes all.

    What came before the first one came before all.
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
