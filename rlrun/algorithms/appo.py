"""Asynchronous PPO: the clipped surrogate on V-trace advantages, against a target policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rlrun.algorithm import Algorithm, AlgorithmConfig
from rlrun.config import Fraction, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Schedule
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.aggregation import aggregated_rollouts
from rlrun.flow.flow import Flow
from rlrun.flow.operators import (
    AddTargetOutputs,
    ConcatBatches,
    LearnResult,
    MergeFilters,
    SendWeights,
    TrainOneStep,
    UpdateTargetNetwork,
)
from rlrun.functional.masked import masked_mean
from rlrun.learner.objective import Loss
from rlrun.rollout.worker_set import WorkerSet

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.policy.actor_critic import ActorCriticOutputs


class APPOConfig(AlgorithmConfig):
    """Settings of APPO (the dataflow of arXiv:1802.01561 with the surrogate of arXiv:1707.06347)."""

    train_batch_size: PositiveInt = 500
    """Env steps in a batch; as many fragments as fill it are put side by side."""
    rollout_fragment_length: PositiveInt | None = 50
    """Steps of each env in one fragment, over which V-trace looks ahead; null for as many as let one fragment of every
    worker fill a batch."""
    min_env_steps_per_iteration: NonNegativeInt = 5000
    """An iteration, after which a result is written, goes on batch after batch until at least so many env steps have
    been taken; 0 for one batch."""
    max_grad_norm: PositiveFloat | None = 40.0
    """Bound of the gradient's norm; null for none."""
    rollouts_in_flight: PositiveInt = 2
    """Fragments that each worker is asked for ahead of time; 1 lets it wait while its last one travels."""
    num_aggregators: NonNegativeInt = 0
    """Processes between the workers and the learner that put fragments together to whole batches, for more workers than
    the learner's process can answer; 0 for none. No more than workers are started."""
    broadcast_interval: PositiveInt = 1
    """A worker gets new weights when its own are at least so many batches old."""
    num_epochs: PositiveInt = 1
    """Passes over each batch."""
    minibatch_size: PositiveInt | None = None
    """Steps in a minibatch, whole fragments of them; null for the whole batch."""
    gae_lambda: Fraction = 0.95
    """Further factor of how far V-trace's corrections reach back."""
    clip_param: Schedule = 0.2
    """How far the probability ratio may move before its gradient is cut off."""
    target_update_interval: PositiveInt = 1
    """Batches after which the target policy becomes the present one."""
    kl_coeff: Schedule = 0.0
    """Weight of the divergence of the present policy from the target policy."""
    vtrace_clip_rho: PositiveFloat = 1.0
    """Bound of the importance ratios that say towards which policy's values V-trace goes."""
    vtrace_clip_c: PositiveFloat = 1.0
    """Bound of the importance ratios that say how far corrections reach back."""
    vf_loss_coeff: NonNegativeFloat = 0.5
    """Weight of the value loss."""
    entropy_coeff: Schedule = 0.01
    """Weight of the entropy bonus."""

    @property
    def sgd_steps_per_env_step(self) -> float:
        """Minibatches per env step."""
        return self.num_epochs / (self.minibatch_size or self.train_batch_size)

    @property
    def starts_at_target(self) -> bool:
        """Whether every update begins at the target policy, so that one forward pass gives both."""
        return self.num_epochs == 1 and self.minibatch_size is None and self.target_update_interval == 1


class APPO(Algorithm[APPOConfig]):
    """Workers collect without waiting; several passes over a batch stay near a target policy."""

    Config = APPOConfig
    policy_family = "actor_critic"
    has_target_network = True
    learner_metrics = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "mean_ratio", "grad_norm")

    def loss(self, outputs: ActorCriticOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Clipped surrogate (arXiv:1707.06347, eq. 7) on V-trace advantages over rows [S, T + 1].

        V-trace leads from the policy that acted to the target policy, the surrogate from the target policy to the
        present one, whatever the age of the weights that acted.
        """
        from rlrun.functional.vtrace import vtrace

        config, valid = self.config, batch["valid"].float()
        present = outputs.distribution.outputs
        target = outputs.distribution.like(present.detach() if config.starts_at_target else batch["target_outputs"])
        target_logp = target.log_prob(batch["actions"]) * valid
        log_ratios = target_logp - batch["logp"] * valid
        targets, advantages = vtrace(
            log_ratios,
            outputs.values.detach(),
            batch["rewards"],
            batch["terminateds"],
            batch["valid"],
            gamma=config.gamma,
            clip_rho=config.vtrace_clip_rho,
            clip_c=config.vtrace_clip_c,
            lambda_=config.gae_lambda,
        )
        log_moved = outputs.distribution.log_prob(batch["actions"]) * valid - target_logp
        ratio, clip = log_moved.exp(), scheduled["clip_param"]
        surrogate = (ratio * advantages).minimum(ratio.clamp(1 - clip, 1 + clip) * advantages)
        policy_loss = -masked_mean(surrogate, valid)
        value_loss = masked_mean((outputs.values - targets).square(), valid)
        entropy = masked_mean(outputs.distribution.entropy(), valid)
        kl = masked_mean(target.kl(outputs.distribution), valid)
        return Loss(
            total=policy_loss
            + config.vf_loss_coeff * value_loss
            + scheduled["kl_coeff"] * kl
            - scheduled["entropy_coeff"] * entropy,
            statistics={
                "policy_loss": policy_loss,
                "value_loss": value_loss,
                "entropy": entropy,
                "kl": kl,
                "clip_fraction": masked_mean(((ratio - 1).abs() > clip).float(), valid),
                "mean_ratio": masked_mean(log_ratios.exp(), valid),
            },
        )

    def collect(self, workers: WorkerSet) -> Flow[SampleBatch]:
        """Fragments as they are ready, or batches of them from aggregators."""
        return aggregated_rollouts(
            workers,
            aggregators=self.config.num_aggregators,
            batch_size=self.config.train_batch_size,
            in_flight=self.config.rollouts_in_flight,
        )

    def learn(self, rollouts: Flow[SampleBatch], workers: WorkerSet) -> Flow[LearnResult]:
        """New weights to whoever has delivered, batches of fragments, passes of SGD near the target policy."""
        config = self.config
        batches = (
            rollouts.zip_with_worker()
            .for_each(SendWeights(self.learner, workers, config.broadcast_interval))
            .combine(ConcatBatches(config.train_batch_size))
        )
        if not config.starts_at_target:
            batches = batches.for_each(AddTargetOutputs(self.learner))
        return (
            batches.for_each(
                TrainOneStep(
                    self.learner,
                    workers,
                    num_epochs=config.num_epochs,
                    minibatch_size=config.minibatch_size,
                    whole_fragments=True,
                )
            )
            .for_each(UpdateTargetNetwork(self.learner, config.target_update_interval))
            .for_each(MergeFilters(self.learner, workers))
        )
