"""Base class of algorithms that compare candidates by the returns of complete episodes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from rlrun.algorithms.evolution.candidates import Candidates, EvaluationWorkerConfig
from rlrun.algorithms.evolution.generations import RETURN_METRICS, MergeObservations, generations
from rlrun.algorithms.evolution.settings import EvolutionConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.flow.flow import Flow, Operator, StatefulOperator
from rlrun.engine.flow.operators.weights import BroadcastWeights
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.learner.objective import Objective
from rlrun.engine.rollout.worker_config import WorkerConfig
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.engine.policy.policy import Policy

C = TypeVar("C", bound=EvolutionConfig)


class Evolution(Algorithm[C]):
    """Base class of evolutionary algorithms: workers evaluate candidates, and updates use the returns of all of them.

    A candidate is a parameter vector of the policy. Each round of candidates is a generation.

    Attributes:
        measures_overshoots: Whether workers measure how far actions are outside the bounds of a Box.
    """

    config: C
    policy_family = "rlrun.algorithms.evolution.actor_policy:ActorPolicy"
    worker_factory = "rlrun.algorithms.evolution.evaluation_worker:EvaluationWorker"
    learns_in_worlds = False
    measures_overshoots: bool = False

    @abstractmethod
    def candidates(self) -> Candidates:
        """Rule by which workers derive the candidates of a generation from the broadcast weights."""

    @abstractmethod
    def update(self, trainee: Trainee) -> Operator | StatefulOperator:
        """Creates the operator that updates the search from the returns of a generation's candidates."""

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return RETURN_METRICS

    @override
    def worker_config(self, config: WorkerConfig) -> EvaluationWorkerConfig:
        return EvaluationWorkerConfig(
            **vars(config),
            candidates=self.candidates(),
            episodes=self.config.episodes_per_candidate,
            measures_overshoots=self.measures_overshoots,
        )

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Returns no objectives, since updates load new parameters; subclasses with gradients declare an objective."""
        return []

    @override
    def learn(self, items: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that gathers the returns of each generation, updates the search, and sends weights."""
        return (
            generations(items, trainee)
            .for_each(self.update(trainee))
            .for_each(MergeObservations(trainee))
            .for_each(BroadcastWeights(trainee))
        )
