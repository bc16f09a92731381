"""LinTS: linear Thompson sampling of contextual bandits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.algorithms.bandits.learning import regressed_rewards
from rlrun.algorithms.bandits.settings import LinearBanditConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.settings.config import Schedule

if TYPE_CHECKING:
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.learner.objective import Objective
    from rlrun.engine.policy.policy import Policy


class LinTSConfig(LinearBanditConfig):
    """Settings of linear Thompson sampling (Agrawal and Goyal, arXiv:1209.3352)."""

    v: Schedule = 0.1
    """Scale v of the posterior N(theta, v^2 A^-1) that coefficients are sampled from. It fits rewards whose noise has
    standard deviation v; larger values explore more."""


class LinTS(Algorithm[LinTSConfig]):
    """Linear Thompson sampling: pulls the best arm under coefficients sampled from the posterior (arXiv:1209.3352)."""

    Config = LinTSConfig
    acts_in = ("Discrete",)
    config: LinTSConfig

    @override
    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """Creates the policy, with the ridge prior as initial regression."""
        from rlrun.algorithms.bandits.linear_arms import PosteriorSampling
        from rlrun.algorithms.bandits.policy import LinearBanditPolicy

        return LinearBanditPolicy(*spaces, ridge=self.config.ridge, exploration=partial(PosteriorSampling, "v"))

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        return []

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Dataflow: ridge regression of rewards on contexts; broadcasts the coefficients."""
        return regressed_rewards(fragments, trainee, self.config)
