"""Operators that send weights to the workers, and merge the workers' observation and return statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from rlrun.engine.flow.flow import Operator, StatefulOperator

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.policy.weights import Weights

T = TypeVar("T")


class MergeFilters(Operator):
    """Merges the workers' new statistics of observations and returns into the statistics of the policy in training."""

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee

    @override
    def __call__(self, item: T) -> T:
        deltas = self.trainee.workers.take_filter_deltas()
        if deltas:
            self.trainee.filters.merge(deltas)
        return item


class BroadcastWeights(Operator):
    """Sends the current weights and observation statistics to all workers each time an item passes through."""

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee

    @override
    def __call__(self, item: T) -> T:
        self.trainee.workers.send(self.trainee.weights())
        return item


class SendWeights(StatefulOperator):
    """Sends the current weights to the worker that delivered the item; takes pairs (worker index, item).

    A resumed run starts all workers with the current weights, and sends later weights after the same items as an
    uninterrupted run.

    Args:
        trainee: The policy in training, whose weights are sent to its workers.
        every: Policy lag, in learned batches, at which a worker is sent new weights.
    """

    def __init__(self, trainee: Trainee, every: int = 1) -> None:
        self.trainee = trainee
        self.every = every
        self._sent: dict[int | None, int] = {}
        self._latest: Weights | None = None

    @override
    def settings(self) -> dict[str, Any]:
        return {"every": self.every} if self.every > 1 else {}

    @override
    def __call__(self, item: tuple[int | None, T]) -> T:
        """Sends weights if the worker's policy lag reaches `every`; returns the item without its worker index."""
        worker, batch = item
        version = self.trainee.learner.weights_version
        age = version - self._sent.get(worker, -self.every)
        if not 0 <= age < self.every:  # negative: an older checkpoint has been loaded
            if self._latest is None or self._latest.version != version:  # Ray stores this object once for all workers
                self._latest = self.trainee.weights()
            self.trainee.workers.send(self._latest, worker)
            self._sent[worker] = version
        return batch

    @override
    def state(self) -> dict[str, Any]:
        """Returns pairs (worker index, version of the weights last sent to it), for checkpoints."""
        return {"sent": [[worker, version] for worker, version in self._sent.items()]}

    @property
    @override
    def unsaved(self) -> str:
        """Reason why a resumed run would differ: workers with old weights start with the current ones; "" if none."""
        version = self.trainee.learner.weights_version
        lag = any(sent != version for sent in self._sent.values())
        return "workers acted with older weights than the restored ones" if lag else ""

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._sent = dict(state["sent"])
