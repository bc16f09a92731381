"""Protocol of the worker set used by dataflows; see `rlrun.engine.rollout.worker_set.WorkerSet`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rlrun.engine.flow.sources.operator_chain import OperatorChain
    from rlrun.engine.functional.moments import Moments
    from rlrun.engine.rollout.rollout import JoinedRollouts, Rollout
    from rlrun.engine.rollout.worker import Orders


class CollectedSteps(Protocol):
    """Protocol of the rollout counters, updated by the receiver of each fragment."""

    env_steps: int
    fragments_left_out: int

    def count(self, rollout: Rollout) -> None:
        """Adds a received fragment to the counters."""
        ...

    def take_filter_deltas(self, policy: str) -> dict[str, Moments]:
        """Returns a policy's filter statistics that are new since the last call, by name."""
        ...


class CollectingWorkers(Protocol):
    """Protocol of a training's set of rollout workers, local or remote.

    Attributes:
        num_workers: Number of remote workers; 0 if there is only the local one.
        indices: The workers' indices: 0 for the local one, else from 1.
        deliverers: Indices, from 1, of the actors that receive requests: workers or aggregators.
        fragments_per_round: Number of fragments that complete a synchronous round.
    """

    num_workers: int
    indices: Sequence[int]
    deliverers: Sequence[int]
    fragments_per_round: int

    @property
    def counts(self) -> CollectedSteps:
        """Counters of the steps and episodes in received fragments."""
        ...

    def postprocess(self, policy: str, operators: OperatorChain) -> None:
        """Sets the operators that workers apply to a policy's batches; call before the workers start."""
        ...

    def gather(self, aggregators: int, batch_size: int, in_flight: int, policy: str) -> None:
        """Assigns the remote workers to aggregators; call before the workers start."""
        ...

    def keep_states(self) -> None:
        """Attaches the worker's state to each fragment, for exact restarts of failed workers."""
        ...

    def order(self, orders: Orders, only: int | None = None) -> None:
        """Sends orders (weights, env arguments) to all deliverers or to one; a repeated object is stored only once."""
        ...

    def request(self, deliverer: int) -> None:
        """Requests a fragment, or a batch, from one deliverer (a worker or an aggregator)."""
        ...

    def arrived(self) -> list[Rollout]:
        """Returns the fragments that have arrived."""
        ...

    def joined(self) -> list[JoinedRollouts]:
        """Returns the batches of aggregators that have arrived."""
        ...

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references to wait for (any one of them suffices), and the deadline of the wait."""
        ...
