"""CMA-ES: covariance matrix adaptation over policy parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.evolution.candidates import ListedCandidates, Returns
from rlrun.algorithms.evolution.cma import CovarianceAdaptation
from rlrun.algorithms.evolution.evolution import Evolution
from rlrun.algorithms.evolution.generations import RETURN_METRICS, ranks_within_bounds
from rlrun.algorithms.evolution.settings import EvolutionConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.seeding import generator
from rlrun.engine.learner.learner import load_update
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.config import PositiveFloat, PositiveInt, defaults, fixed
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.engine.policy.policy import Policy

MOST_PARAMETERS = 1_000
"""Maximum number of parameters: memory and time grow with the square, and the eigendecomposition with the cube."""


@defaults(model={"hiddens": ()})
@fixed("the step size adapts itself, starting from `sigma`", lr=1.0)
class CMAESConfig(EvolutionConfig):
    """Settings of CMA-ES (Hansen, arXiv:1604.00772), for networks of at most 1,000 parameters.

    The policy is linear unless `model.hiddens` is set.
    """

    population_size: PositiveInt = 16
    """Population size lambda, the candidates in a generation. For d parameters, 4 + 3 ln d is usual: 12 for 15
    parameters, 17 for 100, 24 for 1,000."""
    sigma: PositiveFloat = 0.5
    """Initial step size: the standard deviation of each parameter in the first generation."""

    @model_validator(mode="after")
    def _has_parents(self) -> CMAESConfig:
        if self.population_size < 4:
            raise ValueError(f"population_size ({self.population_size}) must be at least 4")
        return self


class CMAES(Evolution[CMAESConfig]):
    """CMA-ES over parameters: a normal distribution with adapted covariance and step size (arXiv:1604.00772).

    The policy is the mean of the distribution. Workers receive the mean and the next candidates.
    """

    Config = CMAESConfig
    config: CMAESConfig
    measures_overshoots = True

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return (*RETURN_METRICS, *AdaptDistribution.declared_metrics)

    @override
    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """Creates an actor, whose parameters precede the first generation of candidates in one flat vector.

        Raises:
            UsageError: If the network has too many parameters.
        """
        config = self.config
        policy = config.actor(spaces, seed, num_candidates=config.population_size)
        if policy.num_parameters > MOST_PARAMETERS:
            raise UsageError(
                f"cmaes supports at most {MOST_PARAMETERS:,} parameters, but this network has "
                f"{policy.num_parameters:,}; use a smaller model.hiddens, or use ars or es instead"
            )
        mean = policy.first_parameters()
        first = CovarianceAdaptation(mean, config.sigma, config.population_size)
        policy.set_candidates(first.candidates(candidate_noise(seed, 0, config.population_size, len(mean))))
        return policy

    @override
    def candidates(self) -> ListedCandidates:
        return ListedCandidates(self.config.population_size)

    @override
    def update(self, trainee: Trainee) -> AdaptDistribution:
        return AdaptDistribution(trainee, self.config)


class AdaptDistribution(StatefulOperator):
    """Updates CMA-ES with a generation's returns; loads the new mean and the next candidates into the learner."""

    learns = True

    def __init__(self, trainee: Trainee, config: CMAESConfig) -> None:
        self.trainee = trainee
        self.config = config
        self._search: CovarianceAdaptation | None = None

    @override
    def __call__(self, item: Returns) -> Returns:
        size = self.config.population_size
        learner = self.trainee.learner
        mean, *candidates = learner.flat().reshape(1 + size, -1)
        search = self._search = self._search or CovarianceAdaptation(mean, self.config.sigma, size)
        within = item.returns if item.overshoots is None else ranks_within_bounds(item.returns, item.overshoots)
        search.update(np.stack(candidates), within)
        noise = candidate_noise(self.trainee.seed, item.generation + 1, size, len(mean))
        load_update(learner, np.append(search.mean.astype(np.float32), search.candidates(noise)))
        return item

    declared_metrics = (Metric("distribution/sigma", "", "Step size of the distribution over parameters"),)

    @override
    def metrics(self) -> dict[str, float]:
        return {"distribution/sigma": self.config.sigma if self._search is None else self._search.sigma}

    @override
    def state(self) -> dict[str, Any]:
        return {"distribution": None if self._search is None else self._search.state()}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        saved = state["distribution"]
        self._search = None
        if saved is not None:
            mean = self.trainee.learner.flat().reshape(1 + self.config.population_size, -1)[0]
            self._search = CovarianceAdaptation(mean, self.config.sigma, self.config.population_size)
            self._search.load_state(saved)


def candidate_noise(seed: int, generation: int, size: int, parameters: int) -> NDArray[np.float64]:
    """Seeded standard normal noise [lambda, d] for a generation of lambda candidates with d parameters."""
    return generator(seed, "candidates", generation).standard_normal((size, parameters))
