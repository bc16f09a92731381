"""Connection of a policy's dataflow to the rollout workers, for fragments, weights and observation statistics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rlrun.engine.flow.flow import Flow, StatefulOperator, WorkerOperator, learns, operator_label
from rlrun.engine.flow.sources.rollouts import AsyncRollouts, RolloutMode, SyncRollouts
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.functional.moments import Moments
    from rlrun.engine.policy.weights import Weights
    from rlrun.engine.rollout.worker_set import WorkerSet


LEAVE_ON_WORKER = "rlrun.engine.flow.operators.batch_refs:LeaveOnWorker"
"""Import path of the operator that delivers references to fragments."""

Delivery = Literal["batches", "references"]
"""Fragment transport: by value, or large fragments as references into the worker's object store."""


class PolicyWorkers:
    """One policy's access to the trial's rollout workers, for receiving its fragments and sending its weights.

    Args:
        workers: All rollout workers of the trial.
        policy: Name of the policy whose batches are delivered and whose weights are sent.

    Attributes:
        learns_on_workers: Whether an operator on the workers trains a learner there, and thus needs all parameters.
        sendings: Number of times that weights have been sent to workers.
        has_source: Whether a stream of fragments has been created.
    """

    def __init__(self, workers: WorkerSet, policy: str) -> None:
        self.policy = policy
        self.learns_on_workers = False
        self.sendings = 0
        self.has_source = False
        self._workers = workers
        self._sent: Weights | None = None
        self._orders = Orders()

    @property
    def indices(self) -> Sequence[int]:
        """Indices of the workers: 0 for the local worker, else from 1."""
        return self._workers.indices

    @property
    def num_workers(self) -> int:
        """Number of remote workers; 0 if there is only the local worker."""
        return self._workers.num_workers

    def rollouts(
        self,
        *on_worker: Callable[[Any], Any],
        mode: RolloutMode = "sync",
        in_flight: int = 2,
        deliver: Delivery = "batches",
    ) -> Flow[Any]:
        """Returns a flow of the policy's fragments, T steps in B env slots, from all workers.

        With `sync`, one fragment is requested from every worker, and all are delivered in the order of the workers once
        the last one is ready. The next round is requested when its first item is pulled, after downstream operators
        such as a broadcast of weights have run. A lost worker is restarted from its last state and collects the same
        fragment again, unless operators on the worker learn. With `async`, each fragment is delivered as soon as it is
        ready, and its worker's next fragment is requested when the next item is pulled.

        Args:
            on_worker: Operators that the worker applies to each fragment.
            mode: `sync` (rounds of fragments) or `async`; both are explained above.
            in_flight: Number of simultaneous requests to an asynchronous worker.
            deliver: Whether remote workers send large fragments by value or as Ray references.

        Raises:
            UsageError: The policy's fragments are already delivered to another flow.
        """
        if self.has_source:
            raise UsageError(
                f"the fragments of policy {self.policy!r} already go to a stream, and a second stream would "
                "take some of them away. To use each fragment in several places, call duplicate() on the first stream"
            )
        self.has_source = True
        operators: list[Callable[[Any], Any]] = [*on_worker]
        if deliver == "references" and self.num_workers:
            operators.append(load_internal(LEAVE_ON_WORKER)())
        self.learns_on_workers = any(learns(operator) for operator in operators)
        if self.learns_on_workers and self._workers.served is not None:
            raise UsageError("config.inference.at: trial does not work with workers that learn; set it to worker")
        chain = OperatorChain(operators)
        if operators:
            self._workers.postprocess(self.policy, chain)
        if mode == "sync":
            if self.learns_on_workers and self._workers.fragments_per_round < len(self.indices):
                raise UsageError(
                    "min_share_of_fragments: cannot be set here, because workers that learn must wait for each other"
                )
            if not self.learns_on_workers:  # a learner's state is too large to go with every fragment
                self._workers.keep_states()
            return Flow(SyncRollouts(self._workers, self.policy, chain.described()))
        return Flow(AsyncRollouts(self._workers, self.policy, chain.described(), in_flight))

    def joint_rollouts(
        self, others: Sequence[PolicyWorkers], on_worker: Sequence[Sequence[Callable[[Any], Any]]], mode: RolloutMode
    ) -> Flow[dict[str, Any]]:
        """Returns a flow of multi-agent fragments, each a dict with one batch per policy.

        Args:
            others: The `PolicyWorkers` of the other policies.
            on_worker: Operators that workers apply to each policy's fragments, starting with this policy.
            mode: `sync` (rounds of fragments) or `async`, as in `rollouts`.
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
        """Sends new weights to all workers, or to one; they use the weights from the next request on."""
        self.sendings += 1
        if weights is not self._sent:
            self._sent, self._orders = weights, Orders({self.policy: weights})  # Ray stores it once for all workers
        self._workers.started.order(self._orders, worker)

    def take_filter_deltas(self) -> dict[str, Moments]:
        """Returns, by name, the policy's statistics of observations and of returns collected since the last call."""
        counts = self._workers.counts
        return counts.take_filter_deltas(self.policy) if self.policy in counts.filter_deltas else {}


class OperatorChain:
    """Operators that a rollout worker applies to each fragment of a policy, in order."""

    def __init__(self, operators: Iterable[Callable[[Any], Any]]) -> None:
        self.operators = tuple(operators)
        self._sgd_s = 0.0

    def described(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Returns the name and settings of each operator, for the printed dataflow."""
        return tuple(operator_label(operator) for operator in self.operators)

    def __call__(self, item: Any) -> Any:
        """Applies all operators to an item, and adds the operator's name to exceptions."""
        for operator in self.operators:
            began = time.perf_counter()
            try:
                item = operator(item)
            except Exception as error:
                error.add_note(f"raised by the operator '{operator_label(operator)[0]}' on the worker")
                raise
            if learns(operator):
                self._sgd_s += time.perf_counter() - began
        return item

    def take_sgd_s(self) -> float:
        """Returns the seconds that the operators spent on SGD since the last call."""
        taken, self._sgd_s = self._sgd_s, 0.0
        return taken

    def for_worker(self, worker: int) -> OperatorChain:
        """Returns a chain for one worker, given its index; called whenever the worker starts or restarts."""
        return OperatorChain(
            operator.for_worker(worker) if isinstance(operator, WorkerOperator) else operator
            for operator in self.operators
        )

    def begin(self) -> None:
        """Prepares the operators on the worker, before its first fragment."""
        for operator in self.operators:
            if isinstance(operator, WorkerOperator):
                operator.begin()

    def set_weights(self, weights: Weights) -> None:
        """Passes the policy's new weights to those operators that need them."""
        for operator in self.operators:
            if isinstance(operator, WorkerOperator):
                operator.set_weights(weights)

    def close(self) -> None:
        """Closes the operators that hold resources."""
        for operator in self.operators:
            if isinstance(operator, WorkerOperator):
                operator.close()

    def state(self) -> dict[str, Any]:
        """Returns the states of the operators that have any, by position in the chain."""
        remembering = enumerate(self.operators)
        return {str(i): operator.state() for i, operator in remembering if isinstance(operator, StatefulOperator)}

    def unsaved(self) -> list[str]:
        """Returns the reasons, if any, why a run resumed from a checkpoint taken now would differ from this run."""
        remembering = [operator for operator in self.operators if isinstance(operator, StatefulOperator)]
        return [operator.unsaved for operator in remembering if operator.unsaved]

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the operators' states from the result of `state()`."""
        for position, remembered in state.items():
            operator = self.operators[int(position)]
            if isinstance(operator, StatefulOperator):
                operator.load_state(remembered)
