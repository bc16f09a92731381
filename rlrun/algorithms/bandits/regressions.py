"""Recursive ridge regressions in float64 (NumPy), and the operator that fits them to rewards on contexts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.learner.learner import load_update

if TYPE_CHECKING:
    from rlrun.algorithms.bandits.linear_arms import LinearArms
    from rlrun.engine.flow.trainee import Trainee

NO_BANDIT = (
    "linear bandits learn only from immediate rewards, but this env terminated an episode after several "
    "steps. Use q_learning, dqn or ppo if actions affect later steps; if they do not, have the env truncate "
    "the episode instead of terminating it"
)
"""Error message for an env whose episodes have several steps."""


class RegressRewards(StatefulOperator):
    """Recursive ridge regression of rewards on contexts, with an update for each pull in a batch.

    The regressions are float64. Coefficients and roots of inverse Gram matrices are loaded in float32 for acting.

    Args:
        trainee: The policy in training, with a `LinearBanditPolicy`.
        ridge: Ridge penalty on the squared norm of the coefficients.
    """

    learns = True

    def __init__(self, trainee: Trainee, ridge: float) -> None:
        self.trainee = trainee
        self.ridge = ridge
        self._regressions: RidgeRegressions | None = None
        self._going_on: NDArray[np.bool_] | None = None
        self._looks_for_states = True

    @override
    def settings(self) -> dict[str, Any]:
        return {"ridge": self.ridge}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Updates the regressions by a batch [T, B], pull by pull; returns the batch unchanged.

        Warns if a terminated episode had several steps, since the env is then not a bandit.
        """
        if self._looks_for_states:
            self._look_for_states(item)
        learner, valid = self.trainee.learner, item["valid"]
        self.trainee.lag.add(learner.weights_version, item["weights_version"][valid])
        arms: LinearArms = self.trainee.policy.arms  # type: ignore[attr-defined]  # only bandit policies have `arms`
        if self._regressions is None:
            self._regressions = RidgeRegressions(arms.regressions, arms.features, self.ridge)
        steps = item.steps()
        contexts = arms.contexts(steps["obs"][valid])
        for context, arm, reward in zip(
            contexts, steps["actions"][valid].tolist(), steps["rewards"][valid].tolist(), strict=True
        ):
            if context.ndim == 2:
                self._regressions.add(0, context[arm], reward)
            else:
                self._regressions.add(arm, context, reward)
        flat = np.concatenate([self._regressions.coefficients().ravel(), self._regressions.roots.ravel()])
        load_update(learner, flat.astype(np.float32))
        return item

    def _look_for_states(self, item: SampleBatch) -> None:
        """Warns once if a terminated episode had several steps, since the env is then not a bandit."""
        valid, terminateds = item["valid"], item["terminateds"]
        going_on = valid & ~(terminateds | item["truncateds"])
        before = np.zeros_like(going_on[0]) if self._going_on is None else self._going_on
        if (valid & terminateds & np.concatenate([before[None], going_on[:-1]])).any():
            self._looks_for_states = False
            warnings.warn(NO_BANDIT, stacklevel=2)
        self._going_on = going_on[-1]

    @override
    def state(self) -> dict[str, Any]:
        return {"regressions": None if self._regressions is None else self._regressions.state()}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        saved = state["regressions"]
        self._regressions = None if saved is None else RidgeRegressions.from_state(saved)


Doubles = NDArray[np.float64]


class RidgeRegressions:
    """Recursive ridge regressions on D features, with square roots of their inverse Gram matrices.

    A regression of targets y on rows x has the Gram matrix A = ridge I + sum x x^T, and the coefficients A^-1 b with
    b = sum y x. A^-1 is stored as a root S with S S^T = A^-1. A new row updates S by the Sherman-Morrison formula in
    Potter's form: with f = S^T x and a = 1 / (1 + f^T f),

        S <- S - a / (1 + sqrt(a)) (S f) f^T.

    A^-1 thus stays positive definite despite rounding, and S z with standard normal z is a sample from N(0, A^-1).

    Args:
        number: Number of regressions, M.
        features: Number of features, D.
        ridge: Ridge penalty on the squared norm of the coefficients.

    Attributes:
        roots: Roots S of the inverse Gram matrices, [M, D, D].
        weighted_sums: Target-weighted sums b of the rows, [M, D].

    Source:
        Sherman and Morrison, "Adjustment of an inverse matrix corresponding to a change in one element of a given
        matrix", 1950; the square-root form is Potter's, as described in Kaminski, Bryson and Schmidt, "Discrete
        square root filtering", 1971, section III.
    """

    def __init__(self, number: int, features: int, ridge: float) -> None:
        self.roots: Doubles = np.repeat(np.eye(features)[None] / np.sqrt(ridge), number, 0)
        self.weighted_sums: Doubles = np.zeros((number, features))

    def add(self, which: int, row: NDArray[Any], target: float) -> None:
        """Rank-one update of a regression by one observation.

        Args:
            which: Index of the regression.
            row: Features x, [D].
            target: Target y.
        """
        root, x = self.roots[which], row.astype(np.float64)
        f = x @ root
        a = 1 / (1 + f @ f)
        root -= np.outer(root @ f, f * (a / (1 + np.sqrt(a))))
        self.weighted_sums[which] += target * x

    def coefficients(self) -> Doubles:
        """Ridge estimates A^-1 b of each regression's coefficients, [num_regressions, num_features]."""
        found: Doubles = self.roots @ (self.roots.transpose(0, 2, 1) @ self.weighted_sums[..., None])
        return found[..., 0]

    def state(self) -> dict[str, Any]:
        """State for a checkpoint: copies of the inverse Gram roots S and the weighted sums b."""
        return {"roots": self.roots.copy(), "weighted_sums": self.weighted_sums.copy()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Restores regressions from the result of `state()`."""
        number, features = np.shape(state["weighted_sums"])
        regressions = cls(number, features, ridge=1.0)
        regressions.roots[:] = state["roots"]
        regressions.weighted_sums[:] = state["weighted_sums"]
        return regressions
