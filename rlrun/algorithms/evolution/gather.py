"""Synchronisation of workers: one item of each worker per round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.messages.errors import CheckpointError

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee


class GatherWorkers(StatefulOperator):
    """Gathers one item per worker into a list, ordered by worker.

    Inputs are pairs of worker index and item. Further items of a faster worker are queued for the next rounds.
    """

    def __init__(self, trainee: Trainee) -> None:
        self.workers = trainee.workers
        self._waiting: dict[int, list[Any]] = {worker: [] for worker in self.workers.indices}

    @override
    def __call__(self, item: tuple[int | None, Any]) -> Iterable[list[Any]]:
        """Emits a list with one item per worker when all have arrived, else nothing."""
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
