"""A2C: synchronous advantage actor-critic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from rlrun.algorithms.loss_metrics import POLICY_GRADIENT_METRICS
from rlrun.algorithms.settings.on_policy import OnPolicyConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.advantages import ComputeAdvantages, Standardize
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.operators.value_estimates import MeasureValues
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.learner.objective import Loss
from rlrun.engine.learner.policy_gradient import policy_gradient_loss
from rlrun.engine.settings.config import Fraction, NonNegativeFloat, Schedule, defaults
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs


@defaults(lr=7e-4, train_batch_size=40, min_env_steps_per_iteration=2000)
class A2CConfig(OnPolicyConfig):
    """Settings of A2C, the synchronous form of A3C (Mnih et al., arXiv:1602.01783).

    With 8 envs, for example, a batch of 40 steps consists of 5 steps from each env.
    """

    of_logged_actions = "mask"

    gae_lambda: Fraction = 1.0
    """Lambda of GAE, between one-step (0) and n-step (1) advantages; n is the number of steps left in the fragment."""
    standardize_advantages: bool = False
    """Whether advantages are standardized (mean 0, standard deviation 1) over a batch."""
    vf_loss_coeff: NonNegativeFloat = 0.5
    """Weight of the value loss."""
    entropy_coeff: Schedule = 0.0
    """Weight of the entropy bonus."""


class A2C(Algorithm[A2CConfig]):
    """Synchronous advantage actor-critic: one policy-gradient step per batch of short rollouts (arXiv:1602.01783)."""

    Config = A2CConfig
    policy_family = "rlrun.engine.policy.actor_critic:ActorCriticPolicy"
    learner_metrics: ClassVar[tuple[Metric, ...]] = POLICY_GRADIENT_METRICS
    operator_metrics = MeasureValues.declared_metrics

    @override
    def loss(self, outputs: ActorCriticOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Policy gradient, value loss and entropy bonus over S sequences of L steps (arXiv:1602.01783, alg. S3)."""
        return policy_gradient_loss(
            outputs,
            batch,
            vf_loss_coeff=self.config.vf_loss_coeff,
            entropy_coeff=scheduled["entropy_coeff"],
        )

    @override
    def learn(self, fragments: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that computes the advantages in each rollout and takes one SGD step per batch."""
        config = self.config
        batches = (
            fragments.for_each(ComputeAdvantages(config.gamma, config.gae_lambda, config.reward_streams))
            .combine(ConcatBatches(config.train_batch_size))
            .for_each(MeasureValues())
        )
        if config.standardize_advantages:
            batches = batches.for_each(Standardize("advantages"))
        return (
            batches.for_each(TrainOnBatch(trainee, seq_len=config.steps_in_row))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )
