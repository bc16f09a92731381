"""Groups of remote rollout workers, each with an actor (aggregator) that joins their fragments into whole batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rlrun.engine.actors.supervised_actors import SupervisedActors
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.messages.errors import TrainingFailed
from rlrun.engine.rollout.aggregator import Aggregator, AggregatorConfig
from rlrun.engine.rollout.rollout import JoinedRollouts
from rlrun.engine.rollout.worker_config import Aggregation

if TYPE_CHECKING:
    from rlrun.engine.actors.actor_place import Call
    from rlrun.engine.rollout.remote_workers import RemoteWorkers
    from rlrun.engine.rollout.worker import Orders

ANSWERS_WITHIN_S = 1.0
"""Longest wait of an aggregator for a full batch; after that, the aggregator answers without a batch, so that it can
receive new weights."""


class AggregatedWorkers:
    """Remote rollout workers in groups, each supervised by an actor (aggregator) that joins fragments into batches.

    The constructor starts workers and aggregators without waiting for them. Ray must be running.

    Args:
        make_workers: Function that starts a group's workers, given the indices of workers and of their next fragments.
        indices: The workers' indices.
        aggregation: Settings of the aggregators.
        timeout_s: Seconds to wait for an aggregator's answer before the aggregator is restarted.
        max_restarts: Maximum number of restarts of workers and aggregators together, before the trial fails.
    """

    def __init__(
        self,
        make_workers: partial[RemoteWorkers],
        indices: Sequence[int],
        aggregation: Aggregation,
        *,
        timeout_s: float,
        max_restarts: int,
    ) -> None:
        self._make_workers = make_workers
        self._aggregation = aggregation
        self._indices = indices
        self._shares = shares(len(indices), aggregation.aggregators)
        self._timeout_s = timeout_s
        self._max_restarts = max_restarts
        self._due = dict.fromkeys(indices, 0)
        self._restarts_of_workers = 0
        self._inbox: deque[Call] = deque()
        self._actors = SupervisedActors(
            self._aggregator,
            range(1, aggregation.aggregators + 1),
            what="aggregator",
            num_cpus=0.0,  # it mostly waits; its workers have CPUs of their own
            timeout_s=timeout_s,
            max_restarts=max_restarts,
        )

    @property
    def restarts(self) -> int:
        """Number of restarts of workers and aggregators so far."""
        return self._restarts_of_workers + self._actors.restarts

    def order(self, orders: Orders, only: int | None = None) -> None:
        """Sends new weights or env keyword arguments to one or all aggregators, which pass them to their workers."""
        self._actors.tell("follow", orders, only, about=orders.about)

    def request(self, deliverer: int) -> None:
        """Requests a batch from an aggregator; `arrived` returns it later."""
        self._actors.ask(deliverer, "sample").inbox = self._inbox

    def arrived(self) -> list[JoinedRollouts]:
        """Returns the batches that are ready, without waiting for more.

        Raises:
            RlrunError: A worker raised this error.
            TrainingFailed: More workers or aggregators died than may be restarted.
        """
        self._actors.attend()
        arrived: list[JoinedRollouts] = [call.answer for call in self._inbox]
        self._inbox.clear()
        self._note(arrived)
        self._restarts_of_workers += sum(joined.worker_restarts for joined in arrived)
        if self.restarts > self._max_restarts:
            raise TrainingFailed(
                f"{self.restarts} rollout workers and aggregators had to be restarted, but "
                f"max_worker_restarts allows only {self._max_restarts}"
            )
        return arrived

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references to wait for (any one suffices) before a batch arrives, and a deadline."""
        return self._actors.awaited()

    def due(self) -> list[int]:
        """Returns, for each worker, the index (from 0) of its first fragment that has not been delivered."""
        return [self._due[worker] for worker in self._indices]

    def states(self) -> list[Any]:
        """Returns the states of all workers in all groups, ordered by worker index."""
        answers = self._actors.answers_of_all("states", [()] * len(self._shares))
        return [state for states in answers for state in states]

    def load_states(self, states: Sequence[Any], due: Sequence[int]) -> int:
        """Restores the workers' states; drops pending requests, and fragments that have not been delivered.

        Args:
            states: Result of `states()`.
            due: For each worker, the index (from 0) of its first fragment that has not been delivered.

        Returns:
            The number of env slots that could not be restored exactly.
        """
        self._inbox.clear()
        self._actors.forget()
        self._due = dict(zip(self._indices, map(as_count, due), strict=True))
        return sum(self._actors.answers_of_all("load_states", [(states[share], due[share]) for share in self._shares]))

    def close(self) -> None:
        """Terminates the workers and the aggregators."""
        self._actors.close()

    def _note(self, arrived: Iterable[JoinedRollouts]) -> None:
        """Updates each worker's next fragment number from delivered fragments."""
        for joined in arrived:
            self._due.update((rollout.worker_index, rollout.fragment + 1) for rollout in joined.fragments)

    def _aggregator(self, index: int) -> partial[Aggregator]:
        """Returns the factory of an aggregator, for its start and each restart."""
        self._note(call.answer for call in self._inbox)
        own = self._indices[self._shares[index - 1]]
        config = AggregatorConfig(
            index=index,
            workers=partial(self._make_workers, indices=own, due={worker: self._due[worker] for worker in own}),
            aggregation=self._aggregation,
            answers_within_s=min(ANSWERS_WITHIN_S, self._timeout_s / 2),
        )
        return partial(Aggregator, config)


def shares(workers: int, aggregators: int) -> list[slice]:
    """Divides the workers among aggregators, into consecutive groups of almost equal size."""
    return [
        slice(aggregator * workers // aggregators, (aggregator + 1) * workers // aggregators)
        for aggregator in range(aggregators)
    ]
