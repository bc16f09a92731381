"""What every rollout worker does, whatever it is made of.

An algorithm may bring a worker of its own, named by `module:Class`. It is made from its config, in the trial's own
process or in an actor. The config is a dataclass that can be pickled, with two fields that each worker gets values of
its own for: `worker_index` (0 for the local worker, else from 1), and `first_fragment`, the number of its first
fragment. A worker that is made anew in place of a dead one goes on with the fragment that is due, where workers are
asked in rounds from the place that the dead one told last. What it draws at random therefore hangs on the number of the
fragment. All that it is told besides comes as `Orders`.

`RolloutWorker` is the one that steps envs with behavior policies.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rlrun.policy.weights import Weights
    from rlrun.rollout.rollout import Rollout

ROLLOUT_WORKER = "rlrun.rollout.rollout_worker:RolloutWorker"
"""What makes the worker that steps envs with behavior policies."""


@dataclass(frozen=True)
class Orders:
    """Everything that workers are told in the course of a run; what is left out stays as it is.

    Attributes:
        weights: New weights by policy; those of a league's seat hold its lineup.
        env_kwargs: What a curriculum gives the envs, from each one's next episode on; None for no change.
    """

    weights: Mapping[str, Weights] = field(default_factory=dict)
    env_kwargs: Mapping[str, Any] | None = None

    @property
    def about(self) -> Hashable:
        """What they change. Of orders that change the same only the last ones count."""
        return tuple(self.weights), self.env_kwargs is not None


class Worker(Protocol):
    """Makes fragments of experience, or whatever else an algorithm learns from, one after the other."""

    def follow(self, orders: Orders) -> None:
        """Takes over weights, and whatever else is new; it holds from the next fragment on."""
        ...

    def sample(self) -> Rollout:
        """Makes the next fragment.

        `Rollout.batches` holds for a policy a `SampleBatch`, or anything else that can be pickled. The number in
        `Rollout.fragment` grows by one with each fragment.
        """
        ...

    def state(self) -> Any:
        """Returns where the worker is, as a checkpoint can hold it."""
        ...

    def place(self) -> Any:
        """Returns what `state` returns, behind a fragment: it is told with each one of remote workers in rounds.

        A long log in it may be a `LogTail` of the rows that are new. A worker that is lost is made anew, and brought
        back to there by `load_state`.
        """
        ...

    def load_state(self, state: Any) -> int:
        """Returns to where a worker was.

        Args:
            state: What `state` returned.

        Returns:
            The number of env slots that could not be brought back exactly and began a new episode instead.
        """
        ...

    def close(self) -> None:
        """Frees what it holds."""
        ...
