"""ARS: augmented random search along the best random perturbations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.evolution.candidates import (
    MirroredPairs,
    Returns,
    as_gradient,
    summed_perturbations,
)
from rlrun.algorithms.evolution.evolution import Evolution
from rlrun.algorithms.evolution.settings import EvolutionConfig
from rlrun.engine.flow.flow import Operator
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.learner.objective import Objective
from rlrun.engine.learner.optimizers import SGD
from rlrun.engine.settings.config import PositiveInt, Schedule, defaults
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.engine.policy.policy import Policy


@defaults(lr=0.02, normalize_observations=True, model={"hiddens": ()})
class ARSConfig(EvolutionConfig):
    """Settings of augmented random search (Mania et al., arXiv:1803.07055).

    With `normalize_observations` (the default), this is version V2 of the paper, otherwise V1. The policy is linear
    unless `model.hiddens` is set.
    """

    num_pairs: PositiveInt = 8
    """Number N of perturbations in a generation; each is evaluated with both signs."""
    top_pairs: PositiveInt | None = None
    """Number b of pairs used in an update: those with the highest return of either candidate; null for all."""
    sigma: Schedule = 0.05
    """Standard deviation nu of the perturbations."""

    @model_validator(mode="after")
    def _check_best_pairs(self) -> ARSConfig:
        if self.top_pairs is not None and self.top_pairs > self.num_pairs:
            raise ValueError(f"top_pairs ({self.top_pairs}) must not exceed num_pairs ({self.num_pairs})")
        return self


class ARS(Evolution[ARSConfig]):
    """Augmented random search: finite-difference steps along the best mirrored perturbations (arXiv:1803.07055)."""

    Config = ARSConfig
    config: ARSConfig
    learner_metrics = (Metric("grad_norm", "", "Norm of the estimated gradient"),)

    @override
    def candidates(self) -> MirroredPairs:
        return MirroredPairs(self.config.num_pairs)

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Returns one objective without a loss function, since the dataflow computes the gradient from returns."""
        return [Objective("returns", None, optimizer=SGD())]

    @override
    def update(self, trainee: Trainee) -> FollowBestPairs:
        return FollowBestPairs(trainee, self.config.top_pairs or self.config.num_pairs)


class FollowBestPairs(Operator):
    """Gradient step along the best pairs of perturbations, each weighted by the difference between its two returns.

    The step is divided by the number of pairs used and by the standard deviation of their returns. If these returns are
    all equal, there is no step.

    Source:
        Mania et al., arXiv:1803.07055, algorithm 2, line 7.
    """

    learns = True

    def __init__(self, trainee: Trainee, top_pairs: int) -> None:
        self.trainee = trainee
        self.top_pairs = top_pairs

    @override
    def settings(self) -> dict[str, Any]:
        return {"top_pairs": self.top_pairs}

    @override
    def __call__(self, item: Returns) -> Returns:
        returns = item.returns.reshape(-1, 2)
        best = np.sort(np.argsort(-returns.max(-1), kind="stable")[: self.top_pairs])
        deviation = returns[best].std()
        scale = 1 / (self.top_pairs * deviation) if deviation > 0 else 0.0
        weights = [(int(pair), float(returns[pair, 0] - returns[pair, 1]) * scale) for pair in best]
        learner = self.trainee.learner
        ascent = summed_perturbations(self.trainee.seed, item.generation, weights, len(learner.flat()))
        learner.apply_gradients(as_gradient(ascent), {"returns": ()}, scheduled=self.trainee.clock.scheduled())
        return item
