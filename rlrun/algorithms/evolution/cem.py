"""CEM: the cross-entropy method over policy parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.evolution.candidates import Returns, Samples, perturbation
from rlrun.algorithms.evolution.evolution import Evolution
from rlrun.algorithms.evolution.settings import EvolutionConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.flow.flow import Operator
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.learner.learner import load_update
from rlrun.engine.settings.config import PositiveFloat, PositiveInt, Schedule, defaults, fixed

if TYPE_CHECKING:
    from rlrun.engine.policy.policy import Policy


@defaults(model={"hiddens": ()})
@fixed("the distribution is refitted in each generation, without gradient steps", lr=1.0)
class CEMConfig(EvolutionConfig):
    """Settings of the cross-entropy method (Rubinstein, 1999), with added noise (Szita and Lorincz, 2006).

    The policy is linear unless `model.hiddens` is set.
    """

    population_size: PositiveInt = 50
    """Number of candidates in a generation."""
    num_elites: PositiveInt = 10
    """Number of elites: the best candidates of a generation, to which the distribution is fitted."""
    sigma: PositiveFloat = 1.0
    """Initial standard deviation of the distribution over each parameter."""
    added_sigma: Schedule = 0.0
    """Standard deviation of the noise that is added to the elites' variance, against premature convergence."""

    @model_validator(mode="after")
    def _has_elites(self) -> CEMConfig:
        if not 1 < self.num_elites < self.population_size:
            raise ValueError(
                f"num_elites ({self.num_elites}) must be at least 2, and less than population_size "
                f"({self.population_size})"
            )
        return self


class CEM(Evolution[CEMConfig]):
    """Cross-entropy method over parameters: a diagonal normal distribution fitted to the elites of each generation.

    The policy is the mean of the distribution. Workers receive the mean and the standard deviations.
    """

    Config = CEMConfig
    config: CEMConfig

    @override
    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """Creates an actor, whose parameters precede the search's initial standard deviations in one flat vector."""
        policy = self.config.actor(spaces, seed, num_candidates=1)
        policy.set_candidates(np.full((1, policy.num_parameters), self.config.sigma, np.float32))
        return policy

    @override
    def candidates(self) -> Samples:
        return Samples(self.config.population_size)

    @override
    def update(self, trainee: Trainee) -> FitElites:
        return FitElites(trainee, self.config.num_elites)


class FitElites(Operator):
    """Fits a diagonal normal distribution over parameters to the candidates with the highest returns.

    Source:
        Szita and Lorincz, "Learning Tetris using the noisy cross-entropy method", 2006, eqs. 2 to 4.
    """

    learns = True

    def __init__(self, trainee: Trainee, num_elites: int) -> None:
        self.trainee = trainee
        self.num_elites = num_elites

    @override
    def settings(self) -> dict[str, Any]:
        return {"num_elites": self.num_elites}

    @override
    def __call__(self, item: Returns) -> Returns:
        learner, seed = self.trainee.learner, self.trainee.seed
        mean, deviation = learner.flat().reshape(2, -1)
        best = np.argsort(-item.returns, kind="stable")[: self.num_elites]
        noise = np.stack([perturbation(seed, item.generation, int(elite), len(mean)) for elite in best])
        elites = mean + deviation * noise.astype(np.float64)
        variances = elites.var(0) + self.trainee.clock.value("added_sigma") ** 2
        load_update(learner, np.concatenate([elites.mean(0), np.sqrt(variances)]).astype(np.float32))
        return item
