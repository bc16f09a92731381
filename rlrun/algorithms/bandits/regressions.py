"""Operator that fits ridge regressions of rewards on contexts."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.bandits.ridge_regression import RidgeRegressions
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.learner.learner import load_update

if TYPE_CHECKING:
    from rlrun.algorithms.bandits.linear_arms import LinearArms
    from rlrun.engine.flow.trainee import Trainee


NO_BANDIT = (
    "linear bandits learn what a pull pays at once, and here an episode was terminated after several steps: "
    "take q_learning, dqn or ppo where a step changes what the next one meets. "
    "A bandit of several pulls truncates its episodes, and does not terminate them"
)
"""Error message on an env whose episodes have several steps."""


class RegressRewards(StatefulOperator):
    """Recursive ridge regression of rewards on contexts, with an update for each pull of a batch.

    The regressions are float64. Coefficients and roots of inverse Gram matrices are loaded in float32 for acting.

    Args:
        trainee: Training of a `LinearBanditPolicy`.
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

        Warns if a terminated episode had several steps, since the env is then no bandit.
        """
        if self._looks_for_states:
            self._look_for_states(item)
        learner, valid = self.trainee.learner, item["valid"]
        self.trainee.lag.add(learner.weights_version, item["weights_version"][valid])
        arms: LinearArms = self.trainee.policy.arms  # type: ignore[attr-defined]  # its family's own
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
        """Warns once if a terminated episode had several steps, since the env is then no bandit."""
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
