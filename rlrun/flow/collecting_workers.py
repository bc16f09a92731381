"""Interface of the rollout workers in dataflows; see `rlrun.rollout.worker_set.WorkerSet`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rlrun.flow.sources.operator_chain import OperatorChain
    from rlrun.functional.moments import Moments
    from rlrun.rollout.rollout import JoinedRollouts, Rollout
    from rlrun.rollout.worker import Orders


class CollectedSteps(Protocol):
    """Counts of the received fragments; the receiver of a fragment counts it."""

    env_steps: int

    def count(self, rollout: Rollout) -> None:
        """Counts a fragment."""
        ...

    def take_filter_deltas(self, policy: str) -> dict[str, Moments]:
        """Returns the new statistics of a policy's filters since the last call, by name."""
        ...


class CollectingWorkers(Protocol):
    """The rollout workers of a training, wherever they run.

    Attributes:
        num_workers: Remote workers; 0 for the local one alone.
        indices: The workers' indices: 0 for the local one, else from 1.
        deliverers: Indices of the recipients of requests: the workers, or aggregators, from 1.
    """

    num_workers: int
    indices: Sequence[int]
    deliverers: Sequence[int]

    @property
    def counts(self) -> CollectedSteps:
        """Counts of the fragments received so far."""
        ...

    def postprocess(self, policy: str, operators: OperatorChain) -> None:
        """Sets operators that the workers apply to a policy's batches; to be called before the workers start."""
        ...

    def gather(self, aggregators: int, batch_size: int, in_flight: int, policy: str) -> None:
        """Assigns the remote workers to aggregators; to be called before they start."""
        ...

    def keep_states(self) -> None:
        """Has each fragment hold its worker's state, from which a lost worker is restarted exactly."""
        ...

    def order(self, orders: Orders, only: int | None = None) -> None:
        """Sends orders to all deliverers, or to one; the same object sent several times is stored once."""
        ...

    def request(self, deliverer: int) -> None:
        """Requests a fragment or a batch of one deliverer."""
        ...

    def arrived(self) -> list[Rollout]:
        """Returns the fragments that are ready."""
        ...

    def joined(self) -> list[JoinedRollouts]:
        """Returns the batches of aggregators that are ready."""
        ...

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references to wait for, of which one is enough, and the deadline of that wait."""
        ...
