"""Interfaces of learners, which run in this process or as data-parallel learners in Ray actors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rlrun.engine.data.sample_batch import SampleBatch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from rlrun.engine.policy.policy import Policy

EvaluatedFunction = Callable[[Any, SampleBatch], Any]
"""Function from a policy's outputs and rows of experience [S, L] to a tree of tensors."""

Recompute = Callable[[Callable[[EvaluatedFunction, SampleBatch], Any]], SampleBatch]
"""Picklable function that takes `Learner.evaluate` and returns new columns for rows of experience [S, L]."""

LastBatch = SampleBatch | Callable[[], SampleBatch] | None
"""Last batch that a learner has learned from, or a function that reads this batch again; None before the first."""


@dataclass(frozen=True)
class TargetUpdates:
    """Interval and rate of target network updates: target <- (1 - tau) * target + tau * parameters.

    Attributes:
        every: Number of minibatches from one update to the next.
        tau: Coefficient of the soft update; 1 copies the parameters.
    """

    every: int
    tau: float = 1.0


AllReduceTensor = Callable[["Tensor"], "Tensor"]
"""Function that sums a tensor over all data-parallel learners, in place, and returns the tensor."""


class Learner(Protocol):
    """Interface of learners, which train one policy's parameters, in this process or in others."""

    policy: Policy
    sgd_steps: int
    weights_version: int
    last_batch: LastBatch

    def learn(
        self,
        batch: SampleBatch,
        *,
        num_epochs: int,
        minibatch_size: int,
        scheduled: Mapping[str, float],
        stop: tuple[str, float] | None = None,
        objectives: Collection[str] | None = None,
        recompute: Recompute | None = None,
    ) -> None:
        """Trains for several epochs of minibatch SGD on a batch of experience."""

    def step(
        self,
        batch: SampleBatch,
        *,
        scheduled: Mapping[str, float],
        objectives: Collection[str] | None = None,
        minibatches: int = 1,
    ) -> NDArray[np.float32]:
        """Trains on one or more minibatches; returns new replay priorities for their rows, or an empty array."""

    def apply_gradients(
        self, gradients: NDArray[np.float32], statistics: Mapping[str, Sequence[str]], *, scheduled: Mapping[str, float]
    ) -> None:
        """Updates the parameters with gradients that another learner computed."""

    def evaluate(self, function: EvaluatedFunction, batch: SampleBatch) -> Any:
        """Evaluates a function of the network's outputs on a batch; returns arrays, or tensors if the batch has any."""

    def last_statistics(self) -> dict[str, float]:
        """Returns the mean of each training statistic over the last update; empty after `take_statistics`."""

    def take_statistics(self) -> dict[str, float]:
        """Returns the mean of each training statistic since the last call, and resets them."""

    def is_finite(self) -> bool:
        """Whether all parameters are finite: none is NaN or infinite."""

    def flat(self) -> NDArray[np.float32]:
        """Returns a copy of all of the policy's parameters, as one flat vector."""

    def acting_flat(self) -> NDArray[np.float32]:
        """Returns a copy of the parameters that rollout workers need for acting, as one flat vector."""

    def load_flat(self, flat: NDArray[np.float32]) -> None:
        """Replaces all of the policy's parameters with those in a flat vector."""

    def target_outputs(self, batch: SampleBatch) -> NDArray[np.float32]:
        """Computes the target network's outputs [S, L, K] for S sequences of L steps of experience."""

    def update_target(self, tau: float = 1.0, prefix: str = "") -> None:
        """Moves the target network towards the current parameters by the fraction `tau`; 1 copies them."""

    def target(self) -> NDArray[np.float32] | None:
        """Returns a copy of the target network's parameters, as one flat vector; None without a target network."""

    def load_target(self, flat: NDArray[np.float32]) -> None:
        """Replaces the target network's parameters with those in a flat vector."""

    def optimizer_state(self) -> dict[str, NDArray[np.float32]]:
        """Returns the state of the optimizers for a checkpoint, as tensors by name."""

    def load_optimizer_state(self, named: Mapping[str, NDArray[np.float32]]) -> None:
        """Restores the optimizers from the dict that `optimizer_state()` returned."""

    def state(self) -> dict[str, Any]:
        """Returns the counters and the random state of minibatch shuffling, for a checkpoint."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores counters and random state from the dict that `state()` returned."""

    def adopt_state(self, state: Mapping[str, Any]) -> None:
        """Takes over the counters in another learner's `state()`, but not its random state."""

    def close(self) -> None:
        """Terminates the processes that the learner started, if any."""


class GradientLearner(Learner, Protocol):
    """Interface of learners in this process that can return gradients instead of applying them."""

    @property
    def statistics_of_gradients(self) -> Mapping[str, Sequence[str]]:
        """Names of the statistics that `gradients` returns for each loss, by name of its objective."""

    def gradients(self, batch: SampleBatch, *, scheduled: Mapping[str, float]) -> NDArray[np.float32]:
        """Computes gradients and statistics on a batch, summed over valid steps, without updating parameters."""


class LearnerFactory(Protocol):
    """Picklable function that creates a freshly initialized learner."""

    def __call__(
        self, *, all_reduce: AllReduceTensor | None = None, share: tuple[int, int] = (0, 1)
    ) -> GradientLearner:
        """Creates a learner; a data-parallel one computes its share of each minibatch, and all-reduces gradients."""


def load_update(learner: Learner, flat: NDArray[np.float32]) -> None:
    """Loads parameters from a gradient-free method into a learner, and counts one update and one new version."""
    learner.load_flat(flat)
    learner.sgd_steps += 1
    learner.weights_version += 1


def last_batch_of(learner: Learner) -> SampleBatch | None:
    """Returns the last batch that a learner has learned from, on the host; None before the first.

    Rows that C kernels read from a replay buffer are returned as they are in the buffer now.
    """
    import torch

    def on_host(leaf: Any) -> Any:
        return leaf.numpy(force=True) if isinstance(leaf, torch.Tensor) else leaf

    latest = learner.last_batch
    batch = latest() if callable(latest) else latest
    return None if batch is None else batch.map(on_host)
