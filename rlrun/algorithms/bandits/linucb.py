"""LinUCB: upper confidence bounds of linear contextual bandits."""

from __future__ import annotations

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


class LinUCBConfig(LinearBanditConfig):
    """Settings of LinUCB (Li et al., arXiv:1003.0146)."""

    alpha: Schedule = 1.0
    """Width of the confidence interval, in standard deviations of the estimate for rewards of variance 1."""


class LinUCB(Algorithm[LinUCBConfig]):
    """Linear contextual bandit that pulls the arm with the largest upper confidence bound (arXiv:1003.0146)."""

    Config = LinUCBConfig
    acts_in = ("Discrete",)
    config: LinUCBConfig

    @override
    def policy(self, spaces: Spaces, seed: int) -> Policy:
        """Creates the policy, with the ridge prior as initial regression."""
        from rlrun.algorithms.bandits.linear_arms import UpperConfidenceBound
        from rlrun.algorithms.bandits.policy import LinearBanditPolicy

        return LinearBanditPolicy(
            *spaces, ridge=self.config.ridge, exploration=lambda *_: UpperConfidenceBound("alpha")
        )

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        return []

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Dataflow: ridge regression of rewards on contexts; broadcasts the coefficients."""
        return regressed_rewards(fragments, trainee, self.config)
