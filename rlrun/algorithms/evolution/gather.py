"""Gathering of one item per worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.errors import CheckpointError
from rlrun.flow.flow import StatefulOperator

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee


class GatherWorkers(StatefulOperator):
    """Gathers one item of every worker, in the order of the workers.

    It works on pairs of worker and item. A worker that is ahead of another waits with what it has for its next round.
    """

    def __init__(self, trainee: Trainee) -> None:
        self.workers = trainee.workers
        self._waiting: dict[int, list[Any]] = {worker: [] for worker in self.workers.indices}

    @override
    def __call__(self, item: tuple[int | None, Any]) -> Iterable[list[Any]]:
        """Returns a list with one item of every worker once all are there, else nothing."""
        worker, delivered = item
        if worker is None:
            raise RuntimeError("what is gathered by worker has to come from a worker")
        if any(type(waits) is not type(delivered) for waits in self._waiting[worker]):
            raise CheckpointError("what waits of workers in the checkpoint is not what they deliver")
        self._waiting[worker].append(delivered)
        if not all(self._waiting.values()):
            return []
        return [[waiting.pop(0) for waiting in self._waiting.values()]]

    @override
    def state(self) -> dict[str, Any]:
        return {"waiting": {str(worker): list(waiting) for worker, waiting in self._waiting.items()}}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        waiting = {int(worker): list(items) for worker, items in state["waiting"].items()}
        if waiting.keys() != self._waiting.keys():
            raise ValueError(f"items wait of the workers {list(waiting)}, and there are {list(self._waiting)}")
        self._waiting = waiting
