"""Asynchronous PPO: the clipped surrogate with V-trace advantages, relative to a target policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from rlrun.algorithms.impala.impala import Impala, ImpalaConfig
from rlrun.algorithms.loss_metrics import CLIP_FRACTION, KL, MEAN_RATIO, POLICY_GRADIENT_METRICS, value_statistics
from rlrun.engine.data.learning_rows import target_rows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow, Operator
from rlrun.engine.flow.operators.minibatches import UpdateTargetNetwork
from rlrun.engine.flow.operators.value_estimates import VALUE_METRICS
from rlrun.engine.flow.operators.weights import MergeFilters
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss
from rlrun.engine.settings.config import Fraction, PositiveInt, Schedule, defaults

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs


@defaults(lr=3e-4, rollout_fragment_length=50, train_batch_size=500, max_grad_norm=40.0, normalize_rewards=False)
class APPOConfig(ImpalaConfig):
    """Settings of APPO (the dataflow of arXiv:1802.01561 with the surrogate of arXiv:1707.06347)."""

    gae_lambda: Fraction = 0.95
    """Lambda of V-trace: a factor of its trace coefficients (arXiv:1802.01561, remark 2)."""
    clip_param: Schedule = 0.2
    """Clip range of the probability ratio (arXiv:1707.06347, eq. 7's epsilon)."""
    target_update_interval: PositiveInt = 1
    """Batches between two updates of the target policy, which copy the current policy."""
    kl_coeff: Schedule = 0.0
    """Weight of the KL divergence between target policy and current policy."""

    @property
    def starts_at_target(self) -> bool:
        """Whether current and target policy are equal at each update, so that one forward pass serves both."""
        return self.num_epochs == 1 and self.minibatch_size is None and self.target_update_interval == 1


class APPO(Impala):
    """Asynchronous PPO: IMPALA's dataflow with the clipped surrogate relative to a target policy."""

    Config = APPOConfig
    config: APPOConfig
    has_target_network = True
    learner_metrics = (*POLICY_GRADIENT_METRICS, KL, CLIP_FRACTION, MEAN_RATIO, *VALUE_METRICS)

    @override
    def loss(self, outputs: ActorCriticOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Clipped surrogate (arXiv:1707.06347, eq. 7) on V-trace advantages over S sequences of T + 1 steps.

        V-trace corrects for the difference between behavior and target policy, and the surrogate for the difference
        between target and current policy.
        """
        config, valid = self.config, batch["valid"].float()
        present = outputs.distribution.outputs
        target = outputs.distribution.like(present.detach() if config.starts_at_target else batch["target_outputs"])
        target_logp = target.log_prob(batch["actions"]) * valid
        log_ratios = target_logp - batch["logp"] * valid
        values = self.corrected_values(outputs, batch, log_ratios, config.gae_lambda)
        log_moved = outputs.distribution.log_prob(batch["actions"]) * valid - target_logp
        ratio, clip = log_moved.exp(), scheduled["clip_param"]
        surrogate = (ratio * values.advantages).minimum(ratio.clamp(1 - clip, 1 + clip) * values.advantages)
        policy_loss = -masked_mean(surrogate, valid)
        entropy = masked_mean(outputs.distribution.entropy(), valid)
        kl = masked_mean(target.kl(outputs.distribution), valid)
        return Loss(
            total=policy_loss + values.loss + scheduled["kl_coeff"] * kl - scheduled["entropy_coeff"] * entropy,
            statistics={
                "policy_loss": policy_loss,
                "entropy": entropy,
                "kl": kl,
                "clip_fraction": masked_mean(((ratio - 1).abs() > clip).float(), valid),
                "mean_ratio": masked_mean(log_ratios.exp(), valid),
                **values.losses,
                **value_statistics(outputs.values, values.targets, valid),
            },
        )

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that trains on batches of rollout fragments and updates the target policy.

        A worker that delivers a fragment gets new weights if its own are at least `broadcast_interval` updates old.
        """
        batches = self.batches(fragments, trainee)
        if not self.config.starts_at_target:
            batches = batches.for_each(AddTargetOutputs(trainee))
        return (
            batches.for_each(self.train_on_batch(trainee))
            .for_each(UpdateTargetNetwork(trainee, self.config.target_update_interval))
            .for_each(MergeFilters(trainee))
        )


class AddTargetOutputs(Operator):
    """Adds the target network's outputs for each observation, `target_outputs` [steps, envs, num_outputs]."""

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the batch with `target_outputs`."""
        rows, packing = target_rows(item)
        outputs = np.moveaxis(self.trainee.learner.target_outputs(rows), 1, 0)
        return SampleBatch(item, target_outputs=packing.unpack(outputs[: len(item["valid"])]))
