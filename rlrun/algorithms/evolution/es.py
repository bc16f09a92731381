"""ES: evolution strategies with ranked returns and mirrored sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.algorithms.evolution.candidates import (
    EvaluationWorkerConfig,
    MirroredPairs,
    Returns,
    as_gradient,
    summed_perturbations,
)
from rlrun.algorithms.evolution.generations import RETURN_METRICS, MergeObservations, centred_ranks, generations
from rlrun.algorithms.evolution.settings import EvolutionConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.flow.flow import Flow, Operator
from rlrun.engine.flow.operators.weights import BroadcastWeights
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.learner.objective import Objective
from rlrun.engine.learner.optimizers import Adam
from rlrun.engine.rollout.worker_config import WorkerConfig
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


class ES(Algorithm[ESConfig]):
    """Evolution strategies: gradient estimates from ranked returns of mirrored perturbations (arXiv:1703.03864)."""

    Config = ESConfig
    config: ESConfig
    policy_family = "rlrun.algorithms.evolution.actor_policy:ActorPolicy"
    worker_factory = "rlrun.algorithms.evolution.evaluation_worker:EvaluationWorker"
    learns_in_worlds = False
    learner_metrics = (Metric("grad_norm", "", "Norm of the estimated gradient"),)
    operator_metrics = RETURN_METRICS

    @override
    def worker_config(self, config: WorkerConfig) -> EvaluationWorkerConfig:
        candidates = MirroredPairs(self.config.num_pairs)
        return EvaluationWorkerConfig(
            **vars(config), candidates=candidates, episodes=self.config.episodes_per_candidate
        )

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objective without a loss function, since the dataflow computes the gradient from returns."""
        return [Objective("returns", None, optimizer=Adam(1e-8))]

    @override
    def learn(self, items: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Dataflow: gathers a generation's returns, steps along ranked perturbations, and broadcasts the weights."""
        return (
            generations(items, trainee)
            .for_each(FollowRanks(trainee, self.config.weight_decay))
            .for_each(MergeObservations(trainee))
            .for_each(BroadcastWeights(trainee))
        )


class FollowRanks(Operator):
    """Gradient step along the perturbations, each weighted by the difference between its pair's centred ranks.

    Source:
        Salimans et al., arXiv:1703.03864, algorithm 1 with centred ranks and mirrored sampling (section 2.1), scaled as
        in their code: divided by the number of evaluations, not by sigma, to which Adam is invariant.
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
