"""Interfaces of learners for dataflows: a learner in this process, or data-parallel learners in Ray actors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rlrun.engine.data.sample_batch import SampleBatch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rlrun.engine.learner.data_parallel.reducer import Reducer
    from rlrun.engine.policy.policy import Policy

EvaluatedFunction = Callable[[Any, SampleBatch], Any]
"""Type of a function from a policy's outputs and rows of experience [S, L] to a tree of tensors."""


class Learner(Protocol):
    """Learner interface: trains one policy's parameters, in this or other processes; see `LocalLearner`."""

    policy: Policy
    sgd_steps: int
    weights_version: int
    last_batch: SampleBatch | None

    def learn(
        self,
        batch: SampleBatch,
        *,
        num_epochs: int,
        minibatch_size: int,
        scheduled: Mapping[str, float],
        stop: tuple[str, float] | None = None,
        objectives: Collection[str] | None = None,
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
        """Trains on one or more minibatches, and returns the rows' new replay priorities, [S] or empty."""

    def apply_gradients(
        self, gradients: NDArray[np.float32], statistics: Mapping[str, Sequence[str]], *, scheduled: Mapping[str, float]
    ) -> None:
        """Updates the parameters with externally computed gradients, such as another learner's `gradients`."""

    def evaluate(self, function: EvaluatedFunction, batch: SampleBatch) -> Any:
        """Evaluates a function of the policy's outputs on a batch; returns a tree of NumPy arrays."""

    def last_statistics(self) -> dict[str, float]:
        """Means of all statistics over the last update; empty from the end of an iteration until the next update."""

    def take_statistics(self) -> dict[str, float]:
        """Returns the means of all statistics since the last call, and resets them."""

    def is_finite(self) -> bool:
        """Whether no parameter is NaN or infinite."""

    def flat(self) -> NDArray[np.float32]:
        """Flat copy of all parameters."""

    def acting_flat(self) -> NDArray[np.float32]:
        """Flat copy of the parameters needed for acting, [A]: the slice `Policy.acting_range`."""

    def load_flat(self, flat: NDArray[np.float32]) -> None:
        """Loads the flat parameter vector."""

    def target_outputs(self, batch: SampleBatch) -> NDArray[np.float32]:
        """Computes the target network's outputs [sequences, steps, K] for rows of experience [sequences, steps]."""

    def update_target(self, tau: float = 1.0, prefix: str = "") -> None:
        """Polyak update of the target network with rate `tau`; 1 is a hard update (copy)."""

    def target(self) -> NDArray[np.float32] | None:
        """Flat copy of the target network's parameters; None without a target network."""

    def load_target(self, flat: NDArray[np.float32]) -> None:
        """Loads the target network's parameters."""

    def optimizer_state(self) -> dict[str, NDArray[np.float32]]:
        """Optimizer state tensors by name, for a checkpoint."""

    def load_optimizer_state(self, named: Mapping[str, NDArray[np.float32]]) -> None:
        """Restores the optimizers from an `optimizer_state()` dict."""

    def state(self) -> dict[str, Any]:
        """State dict: counters, and the random state of the minibatch shuffling."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores counters and random state from a `state()` dict."""

    def adopt_state(self, state: Mapping[str, Any]) -> None:
        """Copies the counters from another learner's `state()`, but not its random state."""

    def close(self) -> None:
        """Terminates the processes that the learner started, if any."""


class GradientLearner(Learner, Protocol):
    """Learner in the calling process that can also return its gradients; see `LocalLearner`."""

    @property
    def statistics_of_gradients(self) -> Mapping[str, Sequence[str]]:
        """Names of the statistics in each objective's gradient sum, by objective."""

    def gradients(self, batch: SampleBatch, *, scheduled: Mapping[str, float]) -> NDArray[np.float32]:
        """Computes the gradients and statistics of a batch, summed over valid steps, without an update."""


class LearnerFactory(Protocol):
    """Picklable factory of a freshly initialized learner."""

    def __call__(self, *, reducer: Reducer | None = None, share: tuple[int, int] = (0, 1)) -> GradientLearner:
        """Creates a data-parallel learner for one share of each minibatch, synchronized by a reducer."""


def load_update(learner: Learner, flat: NDArray[np.float32]) -> None:
    """Loads parameters from a gradient-free update, which counts as one minibatch and one new weights version."""
    learner.load_flat(flat)
    learner.sgd_steps += 1
    learner.weights_version += 1
