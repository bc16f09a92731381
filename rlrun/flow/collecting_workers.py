"""What dataflows know of the rollout workers; see `rlrun.rollout.worker_set.WorkerSet`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rlrun.flow.sources.operator_chain import OperatorChain
    from rlrun.functional.moments import Moments
    from rlrun.rollout.rollout import JoinedRollouts, Rollout
    from rlrun.rollout.worker import Orders


class CollectedSteps(Protocol):
    """What the fragments that were received amount to; who receives one counts it."""

    env_steps: int

    def count(self, rollout: Rollout) -> None:
        """Counts a fragment."""
        ...

    def take_filter_deltas(self, policy: str) -> dict[str, Moments]:
        """Returns what a policy's filters have seen since the last call, by name."""
        ...


class CollectingWorkers(Protocol):
    """The rollout workers of a training, wherever they run.

    Attributes:
        num_workers: Remote workers; 0 for the local one alone.
        indices: The workers' indices: 0 for the local one, else from 1.
        deliverers: Indices of who is asked for fragments: the workers, or aggregators, from 1.
    """

    num_workers: int
    indices: Sequence[int]
    deliverers: Sequence[int]

    @property
    def counts(self) -> CollectedSteps:
        """What was received so far."""
        ...

    def postprocess(self, policy: str, operators: OperatorChain) -> None:
        """Has a policy's batches pass operators on the workers; to be said before the workers start."""
        ...

    def gather(self, aggregators: int, batch_size: int, in_flight: int, policy: str) -> None:
        """Gathers the remote workers behind aggregators; to be said before they start."""
        ...

    def keep_states(self) -> None:
        """Has each fragment tell where its worker is, so that a lost one is made again just there."""
        ...

    def order(self, orders: Orders, only: int | None = None) -> None:
        """Gives all deliverers, or one, orders; the same object given several times is stored once."""
        ...

    def request(self, deliverer: int) -> None:
        """Asks one deliverer for a fragment or a batch."""
        ...

    def arrived(self) -> list[Rollout]:
        """Returns the fragments that are ready."""
        ...

    def joined(self) -> list[JoinedRollouts]:
        """Returns the batches of aggregators that are ready."""
        ...

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns the Ray references, and the moment, of which one has to come before there is news of a request."""
        ...
