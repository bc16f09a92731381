"""PPO: proximal policy optimization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from rlrun.algorithms.loss_metrics import CLIP_FRACTION, KL, KL_PENALTY_COEFF, POLICY_GRADIENT_METRICS
from rlrun.algorithms.settings.on_policy import WITH_KL_PENALTY, OnPolicyConfig, PPOSettings
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
from rlrun.engine.learner.value_losses import clipped_value_errors, summed_value_losses
from rlrun.engine.settings.config import Fraction, LearningRate, NonNegativeFloat, PositiveFloat, Schedule
from rlrun.engine.settings.metric import Metric
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs


class PPOConfig(PPOSettings, OnPolicyConfig):
    """Settings of PPO; the defaults are close to the paper's for continuous control (arXiv:1707.06347, table 3)."""

    of_logged_actions = "mask"

    lr: LearningRate = 3e-4  # type: ignore[assignment]  # accepts more types than in other algorithms
    """Learning rate: a number, a schedule, or a section that adapts it to the KL divergence of updates."""
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


class PPO(Algorithm[PPOConfig]):
    """Proximal policy optimization: the clipped surrogate objective over epochs of minibatch SGD (arXiv:1707.06347)."""

    Config: ClassVar[type[PPOConfig]] = PPOConfig
    policy_family = "rlrun.engine.policy.actor_critic:ActorCriticPolicy"
    learner_metrics: ClassVar[tuple[Metric, ...]] = (*POLICY_GRADIENT_METRICS, KL, CLIP_FRACTION)

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return (*MeasureValues.declared_metrics, *[KL_PENALTY_COEFF] * (self.config.kl_penalty is not None))

    @override
    def loss(self, outputs: ActorCriticOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """PPO loss over S sequences of L steps: clipped surrogate, value loss, entropy bonus, and KL penalty if set.

        Source:
            Schulman et al., arXiv:1707.06347, eqs. 7, 8 and 9.
        """
        config, valid = self.config, batch["valid"].float()
        # Masked before the exponential: the ratio of an empty step may be infinite, and 0 times infinity is NaN.
        log_ratio = (outputs.distribution.log_prob(batch["actions"]) - batch["logp"]) * valid
        ratio, clip = log_ratio.exp(), scheduled["clip_param"]
        surrogate = ratio * batch["advantages"]
        clipped = ratio.clamp(1 - clip, 1 + clip) * batch["advantages"]
        policy_loss = -masked_mean(surrogate.minimum(clipped), valid)
        # Low-variance estimator k3 (http://joschu.net/blog/kl-approx.html); its gradient is also unbiased.
        divergences = ratio - 1 - log_ratio

        value_loss, value_losses = self.value_losses(outputs, batch, valid)
        entropy = masked_mean(outputs.distribution.entropy(), valid)
        total = policy_loss + config.vf_loss_coeff * value_loss - scheduled["entropy_coeff"] * entropy
        if config.kl_penalty is not None:
            total = total + masked_mean(batch["kl_penalty_coeff"] * divergences, valid)
        return Loss(
            total=total,
            statistics={
                "policy_loss": policy_loss,
                **value_losses,
                "entropy": entropy,
                "kl": masked_mean(divergences, valid),
                "clip_fraction": masked_mean(((ratio - 1).abs() > clip).float(), valid),
            },
        )

    def value_losses(self, outputs: Any, batch: SampleBatch, valid: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Value loss over S sequences of L steps, summed over reward streams, and its statistics."""
        return summed_value_losses(outputs, batch, self.value_errors(outputs, batch), valid)

    def value_errors(self, outputs: Any, batch: SampleBatch) -> Tensor:
        """Squared errors of the values, clipped by `vf_clip_param` if set, [S, L]."""
        return clipped_value_errors(outputs.values, batch, self.config.vf_clip_param)

    @property
    @override
    def mode(self) -> RolloutMode:
        """Collection mode: synchronous rounds of all workers, or rollouts one by one if `asynchronous` is set."""
        return "async" if self.config.asynchronous else "sync"

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that computes the advantages in each rollout and runs epochs of SGD on each batch.

        Advantages are standardized over the whole batch. After each batch, all workers receive the new weights.
        """
        config = self.config
        compute = ComputeAdvantages(config.gamma, config.gae_lambda, config.reward_streams)
        flow = (
            fragments.for_each(compute)
            .combine(ConcatBatches(config.train_batch_size))
            .for_each(MeasureValues())
            .for_each(Standardize("advantages"))
            .for_each(
                TrainOnBatch(
                    trainee,
                    num_epochs=config.num_epochs,
                    minibatch_size=config.minibatch_size,
                    seq_len=config.steps_in_row,
                    stop=config.early_stop,
                    recompute=(compute, Standardize("advantages")) if config.recompute_advantages else (),
                )
            )
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )
        return flow if config.kl_penalty is None else load_internal(WITH_KL_PENALTY)(flow, config.kl_penalty, trainee)
