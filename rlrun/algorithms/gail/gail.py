"""GAIL: generative adversarial imitation learning on top of PPO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from rlrun.algorithms.gail.imitation_rewards import ImitationRewards
from rlrun.algorithms.gail.settings import GAILConfig
from rlrun.algorithms.ppo import PPO
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.gail.policy import GAILOutputs
    from rlrun.engine.policy.policy import Policy


class GAIL(PPO):
    """GAIL: PPO on rewards from a discriminator, which learns to distinguish the expert's steps from the learner's.

    Source:
        Ho and Ermon, "Generative adversarial imitation learning", arXiv:1606.03476, algorithm 1.
    """

    Config: ClassVar[type[GAILConfig]] = GAILConfig
    acts_in = ("Discrete", "Box")
    config: GAILConfig
    policy_family = "rlrun.algorithms.gail.policy:GAILPolicy"
    learns_in_worlds = False
    learner_metrics = (
        *PPO.learner_metrics,
        Metric(
            "discriminator/loss",
            "nats",
            "Cross-entropy of the discriminator; 1.39 if it cannot tell expert from learner",
        ),
        Metric("discriminator/grad_norm", "", "Norm of the discriminator's gradient before clipping"),
        Metric(
            "discriminator/own_accuracy",
            "",
            "Fraction of the learner's steps that the discriminator classifies correctly",
        ),
        Metric(
            "discriminator/expert_accuracy",
            "",
            "Fraction of the expert's steps that the discriminator classifies correctly",
        ),
    )

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return (*super().operator_metrics, *ImitationRewards.declared_metrics)

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        discriminator = Objective(
            "discriminator",
            self.discriminator_loss,
            lr="discriminator_lr",
            parameters="discriminator.",
            every=self.config.discriminator_every,
            max_grad_norm=self.config.max_grad_norm,
        )
        return [*super().objectives(policy), discriminator]

    def discriminator_loss(self, outputs: GAILOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Cross-entropy of the discriminator D: -E_expert[log D] - E_learner[log(1 - D)] (arXiv:1606.03476, eq. 17)."""
        from torch.nn.functional import softplus

        valid = batch["valid"].float()
        own, expert = outputs.own_logits(), outputs.expert_logits()
        loss = masked_mean(softplus(-expert) + softplus(own), valid)
        return Loss(
            total=loss,
            statistics={
                "loss": loss,
                "own_accuracy": masked_mean((own < 0).float(), valid),
                "expert_accuracy": masked_mean((expert > 0).float(), valid),
            },
        )

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds PPO's dataflow, in which the discriminator's rewards replace the env's rewards."""
        return super().learn(fragments.for_each(ImitationRewards(trainee, self.config)), trainee)
