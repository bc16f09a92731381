"""The rollout workers as one trainee sees them: the only door from a dataflow to its workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rlrun.errors import UsageError
from rlrun.flow.flow import Flow, learns
from rlrun.flow.operators.batch_refs import LeaveOnWorker
from rlrun.flow.sources.operator_chain import OperatorChain
from rlrun.flow.sources.rollouts import AsyncRollouts, RolloutMode, SyncRollouts
from rlrun.rollout.worker import Orders

if TYPE_CHECKING:
    from rlrun.flow.collecting_workers import CollectingWorkers
    from rlrun.functional.moments import Moments
    from rlrun.policy.weights import Weights

Delivery = Literal["batches", "references"]
"""Whether fragments travel to this process, or large ones stay where they were collected and references travel."""


class PolicyWorkers:
    """A view of the worker set on one trainee's policies.

    Args:
        workers: The worker set.
        policy: The name of the policy whose batches are delivered and whose weights are sent.

    Attributes:
        learns_on_workers: Whether an operator on the workers learns, and so needs all of the learner's parameters.
        sendings: How often weights have been sent.
        has_source: Whether fragments are delivered to a stream.
    """

    def __init__(self, workers: CollectingWorkers, policy: str) -> None:
        self.policy = policy
        self.learns_on_workers = False
        self.sendings = 0
        self.has_source = False
        self._workers = workers
        self._orders = Orders()

    @property
    def indices(self) -> Sequence[int]:
        """The workers' indices: 0 for the local one, else from 1."""
        return self._workers.indices

    @property
    def num_workers(self) -> int:
        """Remote workers; 0 for the local one alone."""
        return self._workers.num_workers

    def rollouts(
        self,
        *on_worker: Callable[[Any], Any],
        mode: RolloutMode = "sync",
        in_flight: int = 2,
        deliver: Delivery = "batches",
        aggregators: int = 0,
        batch_size: int = 0,
    ) -> Flow[Any]:
        """Delivers the policy's fragments [T, B] of all workers, with the version of the weights that acted in each.

        With `sync` every worker is asked for one fragment, all of them are waited for, and the fragments come in the
        order of the workers. The next round is asked for when it is pulled, so that whatever ran downstream (a
        broadcast) came before it. A worker that is lost is made anew where it stood and makes the same fragment, unless
        it learns. With `async` fragments come as they are ready, and a worker that has delivered is
        asked again when the next item is pulled.

        Aggregators are actors that put whole batches together, each from the fragments of its share of the workers. The
        worker of such a batch, for operators such as `SendWeights`, is the aggregator: weights that are sent to it go
        on to all of its workers. A lost aggregator is made anew with its workers; what it had not delivered is lost.

        Args:
            on_worker: What each fragment passes on its worker, before it travels.
            mode: Whether a round is a barrier.
            in_flight: Requests that an asynchronous worker has at a time.
            deliver: Whether fragments of remote workers travel, or stay there if they are large.
            aggregators: Aggregators between asynchronous remote workers and this process, at most one for each worker.
            batch_size: Steps [T * B], valid or not, that fill an aggregator's batch.

        Raises:
            UsageError: The policy's fragments are delivered to another flow already.
        """
        if self.has_source:
            raise UsageError(
                f"the fragments of policy {self.policy!r} go to one stream already: a second one would share them out. "
                "Call duplicate() on the first to have every item in several places"
            )
        self.has_source = True
        operators: list[Callable[[Any], Any]] = [*on_worker]
        if deliver == "references" and self.num_workers:
            operators.append(LeaveOnWorker())
        self.learns_on_workers = any(learns(operator) for operator in operators)
        chain = OperatorChain(operators)
        if operators:
            self._workers.postprocess(self.policy, chain)
        if mode == "sync":
            if not self.learns_on_workers:  # what it remembers would be as large as the learner, in every fragment
                self._workers.keep_states()
            return Flow(SyncRollouts(self._workers, self.policy, chain.described()))
        used = min(aggregators, self.num_workers)
        if used:
            self._workers.gather(used, batch_size, in_flight, self.policy)
            shown = {"aggregators": used, "batch_size": batch_size}
            return Flow(AsyncRollouts(self._workers, self.policy, (), in_flight, shown))
        return Flow(AsyncRollouts(self._workers, self.policy, chain.described(), in_flight))

    def joint_rollouts(
        self, others: Sequence[PolicyWorkers], on_worker: Sequence[Sequence[Callable[[Any], Any]]], mode: RolloutMode
    ) -> Flow[dict[str, Any]]:
        """Delivers the fragments of several policies of one world together, in a dict by policy.

        Args:
            others: The views of the other policies on the same workers.
            on_worker: What the fragments of each policy pass on their worker, this one's first.
            mode: Whether a round is a barrier, as in `rollouts`.
        """
        views = [self, *others]
        chains = [OperatorChain(operators) for operators in on_worker]
        for view, chain in zip(views, chains, strict=True):
            view.has_source = True
            if chain.operators:
                self._workers.postprocess(view.policy, chain)
        policies = [view.policy for view in views]
        described = tuple(operator for chain in chains for operator in chain.described())
        if mode == "sync":
            self._workers.keep_states()
            return Flow(SyncRollouts(self._workers, policies, described))
        return Flow(AsyncRollouts(self._workers, policies, described, in_flight=2))

    def send(self, weights: Weights, worker: int | None = None) -> None:
        """Gives all workers, or one, new weights; they hold from the next request on."""
        self.sendings += 1
        if self._orders.weights.get(self.policy) is not weights:
            self._orders = Orders({self.policy: weights})  # one object for all workers: it is stored once
        self._workers.order(self._orders, worker)

    def take_filter_deltas(self) -> dict[str, Moments]:
        """Returns what the policy's filters have seen since the last call, by name."""
        return self._workers.counts.take_filter_deltas(self.policy)
