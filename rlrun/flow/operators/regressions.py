"""Ridge regressions of rewards on what was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import StatefulOperator
from rlrun.functional.ridge_regression import RidgeRegressions
from rlrun.learner.learner import load_update

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee
    from rlrun.policy.linear_arms import LinearArms


class RegressRewards(StatefulOperator):
    """Learns the rewards of arms from each step of a batch, in float64, and loads what acts of that.

    What acts is float32: coefficients, and roots of the inverse Gram matrices.

    Args:
        trainee: Whose policy is a `LinearBanditPolicy`.
        ridge: Weight of the coefficients' squared norm.
    """

    learns = True

    def __init__(self, trainee: Trainee, ridge: float) -> None:
        self.trainee = trainee
        self.ridge = ridge
        self._regressions: RidgeRegressions | None = None

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"ridge": self.ridge}

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Learns from a batch [T, B], step by step; returns it as it is."""
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

    def state(self) -> dict[str, Any]:
        """Returns the regressions."""
        return {"regressions": None if self._regressions is None else self._regressions.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""
        saved = state["regressions"]
        self._regressions = None if saved is None else RidgeRegressions.from_state(saved)
