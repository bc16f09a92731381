"""What dataflows know of a learner: one in this process, or several in others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rlrun.data.sample_batch import SampleBatch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rlrun.learner.reducer import Reducer
    from rlrun.policy.policy import Policy

EvaluatedFunction = Callable[[Any, SampleBatch], Any]
"""From a policy's outputs and rows of experience [S, L] to a tree of tensors."""


class Learner(Protocol):
    """The parameters of one policy under their optimizers, wherever they are; see `LocalLearner`."""

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
        """Runs epochs of minibatch SGD on a batch."""

    def step(
        self, batch: SampleBatch, *, scheduled: Mapping[str, float], objectives: Collection[str] | None = None
    ) -> NDArray[np.float32]:
        """Learns from one minibatch as it is, and returns its rows' priorities, [S] or empty."""

    def apply_gradients(
        self, gradients: NDArray[np.float32], statistics: Mapping[str, Sequence[str]], *, scheduled: Mapping[str, float]
    ) -> None:
        """Moves the parameters by what another learner's `gradients` returned, or by gradients of one's own."""

    def evaluate(self, function: EvaluatedFunction, batch: SampleBatch) -> Any:
        """Returns what a function of the policy's outputs gives on a batch, as a tree of NumPy arrays."""

    def last_statistics(self) -> dict[str, float]:
        """Returns the means of all statistics over the last update; empty between an iteration's end and the next."""

    def take_statistics(self) -> dict[str, float]:
        """Returns the means of all statistics since the last call, and starts them afresh."""

    def is_finite(self) -> bool:
        """Whether all parameters are finite numbers."""

    def flat(self) -> NDArray[np.float32]:
        """Returns a copy of all parameters, [P]."""

    def acting_flat(self) -> NDArray[np.float32]:
        """Returns a copy of the parameters that act, [A]: the slice that `Policy.acting_range` names."""

    def load_flat(self, flat: NDArray[np.float32]) -> None:
        """Loads parameters [P]."""

    def target_outputs(self, batch: SampleBatch) -> NDArray[np.float32]:
        """Returns what the target network puts out for rows [S, L], as [S, L, K]."""

    def update_target(self, tau: float = 1.0, prefix: str = "") -> None:
        """Moves the target network's parameters by a fraction of their distance to the present ones; 1 copies them."""

    def target(self) -> NDArray[np.float32] | None:
        """Returns a copy of the target network's parameters, [P], None if there is none."""

    def load_target(self, flat: NDArray[np.float32]) -> None:
        """Loads the target network's parameters [P]."""

    def optimizer_state(self) -> dict[str, NDArray[np.float32]]:
        """Returns the optimizer's tensors by name, for a checkpoint."""

    def load_optimizer_state(self, named: Mapping[str, NDArray[np.float32]]) -> None:
        """Loads what `optimizer_state` returned."""

    def state(self) -> dict[str, Any]:
        """Returns counters and the state of the minibatch order."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Loads what `state` returned."""

    def adopt_state(self, state: Mapping[str, Any]) -> None:
        """Adopts the counters of another learner's `state`; its own draws go on."""

    def close(self) -> None:
        """Ends the processes that it runs in, if they are its own."""


class GradientLearner(Learner, Protocol):
    """A learner in the process of who asks it, which gives its gradients away; see `LocalLearner`."""

    @property
    def statistics_of_gradients(self) -> Mapping[str, Sequence[str]]:
        """The names of the statistics behind the gradients, by objective."""

    def gradients(self, batch: SampleBatch, *, scheduled: Mapping[str, float]) -> NDArray[np.float32]:
        """Returns the gradients of a batch, and the statistics of their objectives, as sums over its steps."""


class LearnerFactory(Protocol):
    """Picklable learner factory: makes a learner as it is at the start of the run."""

    def __call__(self, *, reducer: Reducer | None = None, share: tuple[int, int] = (0, 1)) -> GradientLearner:
        """Returns a learner that takes a share of every minibatch, and learns together with others by a reducer."""


def load_update(learner: Learner, flat: NDArray[np.float32]) -> None:
    """Loads parameters [P] that came about without gradients; it counts as a minibatch, and makes a new version."""
    learner.load_flat(flat)
    learner.sgd_steps += 1
    learner.weights_version += 1
