"""Interface of a learner to dataflows: one in this process, or several in actors."""

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
    """The parameters of one policy under their optimizers, in whatever process; see `LocalLearner`."""

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
        """Updates the parameters by one minibatch, and returns its rows' priorities, [S] or empty."""

    def apply_gradients(
        self, gradients: NDArray[np.float32], statistics: Mapping[str, Sequence[str]], *, scheduled: Mapping[str, float]
    ) -> None:
        """Updates the parameters by another learner's `gradients`, or by gradients from elsewhere."""

    def evaluate(self, function: EvaluatedFunction, batch: SampleBatch) -> Any:
        """Evaluates a function of the policy's outputs on a batch; a tree of NumPy arrays."""

    def last_statistics(self) -> dict[str, float]:
        """Means of all statistics over the last update; empty between an iteration's end and the next update."""

    def take_statistics(self) -> dict[str, float]:
        """Means of all statistics since the last call, which are reset."""

    def is_finite(self) -> bool:
        """Whether all parameters are finite."""

    def flat(self) -> NDArray[np.float32]:
        """A copy of all parameters, [P]."""

    def acting_flat(self) -> NDArray[np.float32]:
        """A copy of the parameters for acting, [A]: the slice `Policy.acting_range`."""

    def load_flat(self, flat: NDArray[np.float32]) -> None:
        """Loads parameters [P]."""

    def target_outputs(self, batch: SampleBatch) -> NDArray[np.float32]:
        """Outputs of the target network for rows [S, L], as [S, L, K]."""

    def update_target(self, tau: float = 1.0, prefix: str = "") -> None:
        """Polyak update of the target network: moves it towards the parameters by a fraction `tau`; 1 copies them."""

    def target(self) -> NDArray[np.float32] | None:
        """A copy of the target network's parameters, [P]; None if there is none."""

    def load_target(self, flat: NDArray[np.float32]) -> None:
        """Loads the target network's parameters [P]."""

    def optimizer_state(self) -> dict[str, NDArray[np.float32]]:
        """The optimizer's tensors by name, for a checkpoint."""

    def load_optimizer_state(self, named: Mapping[str, NDArray[np.float32]]) -> None:
        """Restores `optimizer_state()`."""

    def state(self) -> dict[str, Any]:
        """Counters and the state of the minibatch order."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores `state()`."""

    def adopt_state(self, state: Mapping[str, Any]) -> None:
        """Adopts the counters of another learner's `state()`, but not its random draws."""

    def close(self) -> None:
        """Ends the learner's processes, if it has its own."""


class GradientLearner(Learner, Protocol):
    """A learner in the calling process, which can also return its gradients; see `LocalLearner`."""

    @property
    def statistics_of_gradients(self) -> Mapping[str, Sequence[str]]:
        """Names of the statistics that accompany the gradients, by objective."""

    def gradients(self, batch: SampleBatch, *, scheduled: Mapping[str, float]) -> NDArray[np.float32]:
        """Gradients and statistics of a batch, as sums over its steps."""


class LearnerFactory(Protocol):
    """Picklable factory of a learner in its initial state."""

    def __call__(self, *, reducer: Reducer | None = None, share: tuple[int, int] = (0, 1)) -> GradientLearner:
        """Makes a learner that takes a share of every minibatch, and synchronises with others by a reducer."""


def load_update(learner: Learner, flat: NDArray[np.float32]) -> None:
    """Loads parameters [P] found without gradients; counts as one minibatch and one version of the weights."""
    learner.load_flat(flat)
    learner.sgd_steps += 1
    learner.weights_version += 1
