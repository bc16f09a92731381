"""Linear contextual bandits: LinTS (Thompson sampling) and LinUCB (upper confidence bounds)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.algorithms.bandits.regressions import RegressRewards
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.weights import BroadcastWeights
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.settings.config import PositiveFloat, Schedule, defaults, fixed

if TYPE_CHECKING:
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.learner.objective import Objective
    from rlrun.engine.policy.policy import Policy


@defaults(num_envs_per_worker=1, min_env_steps_per_iteration=100)
@fixed("regressions are solved exactly, without gradients", lr=1.0, max_grad_norm=None, microbatch_size=None)
@fixed("regressions are solved exactly, without gradients", compile=False, precision="float32")
@fixed("a pull has no consequences beyond its reward", gamma=0.0)
@fixed("regressions predict the unscaled reward", normalize_rewards=False, reward_scale=1.0, clip_rewards=None)
@fixed("regressions use the unnormalized context", normalize_observations=False)
@fixed("the expected reward is linear in the observation", model={})
@fixed("regressions are solved in the trial's process", num_learners=0, num_gpus=0.0)
class LinearBanditConfig(AlgorithmConfig):
    """Settings of linear bandits.

    Each update uses `num_workers * num_envs_per_worker * rollout_fragment_length` pulls, 1 by default. With more pulls,
    all arms pulled between two updates are chosen before any of their rewards is known.
    """

    ridge: PositiveFloat = 1.0
    """Ridge penalty: weight of the coefficients' squared norm; the initial Gram matrix is ridge times the identity."""

    @classmethod
    @override
    def shapes_parameters(cls, path: str) -> bool:
        """Always False: no setting of a linear bandit determines the shapes of its parameters."""
        return False


def regressed_rewards(fragments: Flow[SampleBatch], trainee: Trainee, config: LinearBanditConfig) -> Flow[Any]:
    """Builds a linear bandit's dataflow: fits ridge regressions to batches of pulls, and broadcasts the coefficients.

    Args:
        fragments: Stream of the rollout fragments (pulls with contexts and rewards) that workers collect.
        trainee: The policy in training, with a `LinearBanditPolicy`.
        config: Settings of the linear bandit.
    """
    return (
        fragments.combine(ConcatBatches(config.env_steps_per_update, exact=True))
        .for_each(RegressRewards(trainee, config.ridge))
        .for_each(BroadcastWeights(trainee))
    )


class LinTSConfig(LinearBanditConfig):
    """Settings of linear Thompson sampling (Agrawal and Goyal, arXiv:1209.3352)."""

    v: Schedule = 0.1
    """Scale v of the posterior N(theta, v^2 A^-1) from which coefficients are sampled. It should match the standard
    deviation of the noise in rewards; larger values explore more."""


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
        """Builds the dataflow that fits ridge regressions of rewards on contexts and broadcasts the coefficients."""
        return regressed_rewards(fragments, trainee, self.config)


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
        """Builds the dataflow that fits ridge regressions of rewards on contexts and broadcasts the coefficients."""
        return regressed_rewards(fragments, trainee, self.config)
