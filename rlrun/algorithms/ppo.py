"""PPO: proximal policy optimization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from rlrun.algorithms.loss_metrics import CLIP_FRACTION, KL, POLICY_GRADIENT_METRICS
from rlrun.algorithms.settings.on_policy import EpochsSettings, OnPolicyConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.advantages import ComputeAdvantages, Standardize
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.operators.value_estimates import MeasureValues
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.sources.rollouts import RolloutMode
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss
from rlrun.engine.learner.value_losses import summed_value_losses
from rlrun.engine.settings.config import Fraction, NonNegativeFloat, PositiveFloat, Schedule
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs


class PPOConfig(EpochsSettings, OnPolicyConfig):
    """Settings of PPO; the defaults are close to the paper's for continuous control (arXiv:1707.06347, table 3)."""

    of_logged_actions = "mask"

    gae_lambda: Fraction = 0.95
    """Lambda of GAE, between one-step (0) and Monte Carlo (1) advantages (arXiv:1506.02438)."""
    clip_param: Schedule = 0.2
    """Clip range of the probability ratio (eq. 7's epsilon)."""
    vf_clip_param: PositiveFloat | None = None
    """Clip range of the value's change from the value at collection; null for no clipping."""
    vf_loss_coeff: NonNegativeFloat = 0.5
    """Weight of the value loss (eq. 9's c1)."""
    entropy_coeff: Schedule = 0.0
    """Weight of the entropy bonus (eq. 9's c2)."""
    asynchronous: bool = False
    """Whether remote workers collect while the learner learns, with weights up to one batch old, instead of waiting."""
    kl_target: PositiveFloat | None = None
    """Early stopping: no further epoch begins once the mean KL divergence of an epoch exceeds 1.5 times this; null for
    none."""


class PPO(Algorithm[PPOConfig]):
    """Proximal policy optimization: the clipped surrogate objective over epochs of minibatch SGD (arXiv:1707.06347)."""

    Config: ClassVar[type[PPOConfig]] = PPOConfig
    policy_family = "rlrun.engine.policy.actor_critic:ActorCriticPolicy"
    learner_metrics: ClassVar[tuple[Metric, ...]] = (*POLICY_GRADIENT_METRICS, KL, CLIP_FRACTION)

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return MeasureValues.declared_metrics

    @override
    def loss(self, outputs: ActorCriticOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """PPO loss over S sequences of L steps: clipped surrogate, value loss and entropy bonus.

        Source:
            Schulman et al., arXiv:1707.06347, eqs. 7 and 9.
        """
        config, valid = self.config, batch["valid"].float()
        # Masked before the exponential: that of an empty step may be infinite, and 0 times infinity is NaN.
        log_ratio = (outputs.distribution.log_prob(batch["actions"]) - batch["logp"]) * valid
        ratio, clip = log_ratio.exp(), scheduled["clip_param"]
        surrogate = ratio * batch["advantages"]
        clipped = ratio.clamp(1 - clip, 1 + clip) * batch["advantages"]
        policy_loss = -masked_mean(surrogate.minimum(clipped), valid)

        value_loss, value_losses = summed_value_losses(outputs, batch, self.value_errors(outputs, batch), valid)
        entropy = masked_mean(outputs.distribution.entropy(), valid)
        return Loss(
            total=policy_loss + config.vf_loss_coeff * value_loss - scheduled["entropy_coeff"] * entropy,
            statistics={
                "policy_loss": policy_loss,
                **value_losses,
                "entropy": entropy,
                # The unbiased estimator of low variance, http://joschu.net/blog/kl-approx.html (k3).
                "kl": masked_mean(ratio - 1 - log_ratio, valid),
                "clip_fraction": masked_mean(((ratio - 1).abs() > clip).float(), valid),
            },
        )

    def value_errors(self, outputs: ActorCriticOutputs, batch: SampleBatch) -> Tensor:
        """Squared errors of the values, clipped by `vf_clip_param` if set, [S, L]."""
        bound = self.config.vf_clip_param
        errors: Tensor = (outputs.values - batch["value_targets"]).square()
        if bound is not None:
            moved = (outputs.values - batch["values"]).clamp(-bound, bound)
            errors = errors.maximum((batch["values"] + moved - batch["value_targets"]).square())
        return errors

    @property
    @override
    def mode(self) -> RolloutMode:
        """Way to collect rollouts: in synchronous rounds of all workers, or one by one if `asynchronous` is set."""
        return "async" if self.config.asynchronous else "sync"

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that computes the advantages in each rollout and runs epochs of SGD on each batch.

        Advantages are standardized over the whole batch. After each batch, all workers receive the new weights.
        """
        config = self.config
        return (
            fragments.for_each(ComputeAdvantages(config.gamma, config.gae_lambda, config.reward_streams))
            .combine(ConcatBatches(config.train_batch_size))
            .for_each(MeasureValues())
            .for_each(Standardize("advantages"))
            .for_each(
                TrainOnBatch(
                    trainee,
                    num_epochs=config.num_epochs,
                    minibatch_size=config.minibatch_size,
                    seq_len=config.steps_in_row,
                    stop=("kl", 1.5 * config.kl_target) if config.kl_target is not None else None,
                )
            )
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )
