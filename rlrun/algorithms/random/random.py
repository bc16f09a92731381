"""Uniformly random actions, a baseline for returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.algorithms.settings.without_network import WithoutNetworkConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow, Operator
from rlrun.engine.flow.operators.weights import BroadcastWeights
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.settings.config import defaults, fixed

if TYPE_CHECKING:
    from rlrun.engine.learner.objective import Objective
    from rlrun.engine.policy.policy import Policy


@fixed("nothing is learned", lr=1.0, gamma=1.0, normalize_rewards=False, reward_scale=1.0, clip_rewards=None)
@defaults(rollout_fragment_length=32)
class RandomConfig(WithoutNetworkConfig):
    """Settings of the uniformly random policy."""


class Random(Algorithm[RandomConfig]):
    """Uniformly random choice among the allowed actions: a baseline without learning."""

    Config = RandomConfig
    policy_family = "rlrun.algorithms.random.uniform_policy:UniformPolicy"
    config: RandomConfig

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        return []

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds a dataflow without updates; it only increments the version of the weights with each rollout.

        With each new version, evaluations sample different actions.
        """
        return fragments.for_each(CountFragments(trainee)).for_each(BroadcastWeights(trainee))


class CountFragments(Operator):
    """Increments the version of the weights with each rollout fragment, as if the policy had been updated."""

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        learner = self.trainee.learner
        self.trainee.lag.add(learner.weights_version, item["weights_version"][item["valid"]])
        learner.sgd_steps += 1
        learner.weights_version += 1
        return item
