"""Interface of rollout workers, and the messages that bring them new weights.

An algorithm may define a custom worker class, named by its import path `module:Class`. The class is instantiated with
its config, in the trial's own process or in an actor. The config is a picklable dataclass with two fields that differ
between workers: `worker_index` (0 for the local worker, else from 1), and `first_fragment`, the index of the first
fragment. A restarted worker continues with the fragment after the last one delivered; with synchronous rollouts, it is
first restored to its state after that fragment. A worker's random draws must therefore depend on the fragment's index.
New weights and env keyword arguments arrive as `Orders`.

`RolloutWorker` is the worker that steps envs with policies.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rlrun.engine.policy.weights import Weights
    from rlrun.engine.rollout.rollout import Rollout

ROLLOUT_WORKER = "rlrun.engine.rollout.rollout_worker:RolloutWorker"
"""Import path of the default worker class, which steps envs with behavior policies."""

TENSOR_WORKER = "rlrun.engine.rollout.tensor_worker:TensorRolloutWorker"
"""Import path of the worker class for envs of tensors, which acts on the learner's device."""

GROUPED_WORKER = "rlrun.engine.rollout.inference.grouped_worker:GroupedWorker"
"""Import path of the worker class whose actions an inference server chooses."""

NO_WORKER = "rlrun.engine.rollout.no_worker:NoWorker"
"""Import path of the worker class for training only on recorded data, which does not step envs."""


@dataclass(slots=True)  # created for each broadcast; a frozen instance would take three times as long
class Orders:
    """Message to rollout workers with new weights or env keyword arguments; omitted parts stay unchanged.

    Attributes:
        weights: For each policy, its new weights, or the frozen opponents that act in its place.
        env_kwargs: Keyword arguments with which a curriculum recreates each env at its next episode; None for no
            change.
    """

    weights: Mapping[str, Weights] = field(default_factory=dict)
    env_kwargs: Mapping[str, Any] | None = None

    @property
    def about(self) -> Hashable:
        """Topic of the message (weights or env arguments); a message replaces an earlier one with the same topic."""
        return tuple(self.weights), self.env_kwargs is not None


class Worker(Protocol):
    """Base class of workers, which collect fragments of experience or other data to train on."""

    def follow(self, orders: Orders) -> None:
        """Loads new weights and env keyword arguments, which take effect from the next fragment on."""
        ...

    def sample(self) -> Rollout:
        """Collects the next fragment of experience.

        For each policy, `Rollout.batches` holds a `SampleBatch` or any other picklable object. The number
        `Rollout.fragment` grows by one with each fragment.
        """
        ...

    def state(self) -> Any:
        """Returns the worker's state as plain data for checkpoints."""
        ...

    def place(self) -> Any:
        """Returns the worker's state after a fragment; if the worker is lost, a replacement resumes from this state.

        Instead of a long log, the state may hold a `LogTail` with only the new rows.
        """
        ...

    def load_state(self, state: Any) -> int:
        """Restores the worker from the result of `state()`.

        Args:
            state: Result of `state()`.

        Returns:
            The number of env slots that could not be restored exactly and began a new episode instead.
        """
        ...

    def close(self) -> None:
        """Releases the worker's resources, such as envs."""
        ...
