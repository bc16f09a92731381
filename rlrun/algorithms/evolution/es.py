"""ES: evolution strategies with ranked returns and mirrored sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from rlrun.algorithms.evolution.candidates import (
    MirroredPairs,
    Returns,
    as_gradient,
    summed_perturbations,
)
from rlrun.algorithms.evolution.evolution import Evolution
from rlrun.algorithms.evolution.generations import centred_ranks
from rlrun.algorithms.evolution.settings import EvolutionConfig
from rlrun.engine.flow.flow import Operator
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.learner.objective import Objective
from rlrun.engine.learner.optimizers import Adam
from rlrun.engine.settings.config import NonNegativeFloat, PositiveInt, Schedule, defaults
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.engine.policy.policy import Policy


@defaults(lr=0.03, model={"hiddens": (64, 64)})
class ESConfig(EvolutionConfig):
    """Settings of evolution strategies (Salimans et al., arXiv:1703.03864)."""

    num_pairs: PositiveInt = 25
    """Number of perturbations in a generation; each is evaluated with both signs."""
    sigma: Schedule = 0.1
    """Standard deviation of the perturbations."""
    weight_decay: NonNegativeFloat = 0.005
    """Weight decay: coefficient of the parameters that are subtracted from the ascent direction."""


class ES(Evolution[ESConfig]):
    """Evolution strategies: gradient estimates from ranked returns of mirrored perturbations (arXiv:1703.03864)."""

    Config = ESConfig
    config: ESConfig
    learner_metrics = (Metric("grad_norm", "", "Norm of the estimated gradient"),)

    @override
    def candidates(self) -> MirroredPairs:
        return MirroredPairs(self.config.num_pairs)

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Returns one objective without a loss function, since the dataflow computes the gradient from returns."""
        return [Objective("returns", None, optimizer=Adam(1e-8))]

    @override
    def update(self, trainee: Trainee) -> FollowRanks:
        return FollowRanks(trainee, self.config.weight_decay)


class FollowRanks(Operator):
    """Gradient step along the perturbations, each weighted by the difference between its pair's centered ranks.

    Source:
        Salimans et al., arXiv:1703.03864, algorithm 1 with centered ranks and mirrored sampling (section 2.1), scaled
        as in their code: divided by the number of evaluations, but not by sigma, since Adam is invariant to it.
    """

    learns = True

    def __init__(self, trainee: Trainee, weight_decay: float) -> None:
        self.trainee = trainee
        self.weight_decay = weight_decay

    @override
    def __call__(self, item: Returns) -> Returns:
        learner = self.trainee.learner
        ranks = centred_ranks(item.returns).reshape(-1, 2)
        weights = enumerate((ranks[:, 0] - ranks[:, 1]) / item.returns.size)
        parameters = learner.flat()
        ascent = summed_perturbations(self.trainee.seed, item.generation, weights, len(parameters))
        ascent -= self.weight_decay * parameters
        learner.apply_gradients(as_gradient(ascent), {"returns": ()}, scheduled=self.trainee.clock.scheduled())
        return item
