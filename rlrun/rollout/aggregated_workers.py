"""Rollout workers behind aggregators: actors that each ask and supervise a share of them and deliver whole batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rlrun.actors.supervised_actors import SupervisedActors
from rlrun.errors import TrainingFailed
from rlrun.functional.saved_numbers import as_count
from rlrun.rollout.aggregator import Aggregation, Aggregator, AggregatorConfig
from rlrun.rollout.rollout import JoinedRollouts

if TYPE_CHECKING:
    from rlrun.actors.actor_place import Call
    from rlrun.rollout.remote_workers import RemoteWorkers
    from rlrun.rollout.worker import Orders

ANSWERS_WITHIN_S = 1.0
"""An aggregator whose batch is not full by then says so, and is asked again: it is alive, and hears of new weights."""


class AggregatedWorkers:
    """Has aggregators start the workers; who is asked, sent weights and waited for is an aggregator.

    Making them starts all and waits for none. Ray must run before.

    Args:
        make_workers: Makes the workers of a share from their `indices` and `due`.
        indices: The workers' indices.
        aggregation: What the aggregators do.
        timeout_s: Seconds after which a batch is given up and its aggregator made anew.
        max_restarts: Workers and aggregators made anew before the failure becomes the trial's.
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
        """How many workers and aggregators were made anew."""
        return self._restarts_of_workers + self._actors.restarts

    def order(self, orders: Orders, only: int | None = None) -> None:
        """Gives all aggregators, or one, orders, which go on to the workers between two batches."""
        self._actors.tell("follow", orders, only, about=orders.about)

    def request(self, deliverer: int) -> None:
        """Asks an aggregator for a batch."""
        self._actors.ask(deliverer, "sample").inbox = self._inbox

    def arrived(self) -> list[JoinedRollouts]:
        """Returns the batches that are ready, without waiting for others.

        Raises:
            RlrunError: What a worker raised, as it was.
            TrainingFailed: If more workers or aggregators died than may be made anew.
        """
        self._actors.attend()
        arrived: list[JoinedRollouts] = [call.answer for call in self._inbox]
        self._inbox.clear()
        self._note(arrived)
        self._restarts_of_workers += sum(joined.worker_restarts for joined in arrived)
        if self.restarts > self._max_restarts:
            raise TrainingFailed(
                f"{self.restarts} rollout workers and aggregators had to be made anew, and max_worker_restarts "
                f"allows {self._max_restarts}"
            )
        return arrived

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references, and the moment, of which one has to come before there is news of a request."""
        return self._actors.awaited()

    def due(self) -> list[int]:
        """Returns the numbers with which the workers' undelivered fragments begin."""
        return [self._due[worker] for worker in self._indices]

    def states(self) -> list[Any]:
        """Returns where the workers are, in their order, whatever aggregators they have."""
        answers = self._actors.answers_of_all("states", [()] * len(self._shares))
        return [state for states in answers for state in states]

    def load_states(self, states: Sequence[Any], due: Sequence[int]) -> int:
        """Brings the workers back to where they were; requests, and what waits at the aggregators, are dropped.

        Args:
            states: What `states` returned.
            due: What `due` returned.

        Returns:
            The number of env slots that could not be brought back exactly.
        """
        self._inbox.clear()
        self._actors.forget()
        self._due = dict(zip(self._indices, map(as_count, due), strict=True))
        return sum(self._actors.answers_of_all("load_states", [(states[share], due[share]) for share in self._shares]))

    def close(self) -> None:
        """Ends the workers and the aggregators."""
        self._actors.close()

    def _note(self, arrived: Iterable[JoinedRollouts]) -> None:
        """Notes which fragments were delivered."""
        for joined in arrived:
            self._due.update((rollout.worker_index, rollout.fragment + 1) for rollout in joined.fragments)

    def _aggregator(self, index: int) -> partial[Aggregator]:
        """Returns what makes an aggregator, at its start and at each restart."""
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
    """Returns which of the workers stand behind each aggregator: neighbours, in shares that differ by one at most."""
    return [
        slice(aggregator * workers // aggregators, (aggregator + 1) * workers // aggregators)
        for aggregator in range(aggregators)
    ]
