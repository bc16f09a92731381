"""Policy distillation: a student learns a teacher's action distributions in states that the student visits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from rlrun.algorithms.dagger.settings import EXPERT_OUTPUTS
from rlrun.algorithms.loss_metrics import GRAD_NORM
from rlrun.algorithms.settings.on_policy import WHO_HAS_CONSTRAINTS, WHO_HAS_CURIOSITY, EpochsSettings, OnPolicyConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss
from rlrun.engine.nn.model_config import WHO_DRAWS_IN_ORDER, ModelConfig
from rlrun.engine.settings.config import Schedule, defaults, fixed
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.stochastic_actor import StochasticActorOutputs


@fixed("the policy has no value network", shared_value=False)
@fixed("the policy has no critic", critic_sees=None)
@fixed(WHO_DRAWS_IN_ORDER, autoregressive=False)
class DistillModelConfig(ModelConfig):
    """Settings of the student's network."""


@fixed(WHO_HAS_CURIOSITY, curiosity=None)
@fixed(WHO_HAS_CONSTRAINTS, constraint=None)
@fixed(
    "the student learns from the teacher, not from rewards",
    gamma=0.0,
    reward_scale=1.0,
    clip_rewards=None,
    normalize_rewards=False,
)
@defaults(lr=1e-3, num_envs_per_worker=8, num_epochs=4, minibatch_size=256)
class DistillConfig(EpochsSettings, OnPolicyConfig):
    """Settings of policy distillation."""

    needed: ClassVar[Mapping[str, str]] = {"expert": "must name a checkpoint: distill imitates its policy"}

    model: DistillModelConfig = DistillModelConfig()
    """Network architecture of the student. With `actor_sees`, the student sees less than the teacher; a recurrent core
    adds memory."""
    expert: str | None = None
    """The teacher: a checkpoint's path, PATH:policy if it holds several; required for training. It acts on the same
    observations and is queried at every step."""
    beta: Schedule = 0.0
    """Probability that the teacher's most likely action is taken instead of the student's, at each step."""

    @property
    @override
    def learns_values(self) -> bool:
        return False


class Distill(Algorithm[DistillConfig]):
    """On-policy policy distillation: KL divergence to the teacher's distributions in states that the student visits.

    Source:
        Rusu et al., "Policy distillation", arXiv:1511.06295, eq. 3; the use of the student's own states follows
        Czarnecki et al., "Distilling policy distillation", arXiv:1902.02186, section 3.
    """

    Config = DistillConfig
    policy_family = "rlrun.algorithms.dagger.distilling:DistillPolicy"
    learns_in_worlds = False
    learner_metrics = (
        Metric("kl", "nats", "Mean KL divergence of the student's action distributions from the teacher's", mode="min"),
        GRAD_NORM,
    )

    @override
    def loss(self, outputs: StochasticActorOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Mean KL(teacher || student) over S sequences of L steps."""
        student = outputs.distribution
        kl = masked_mean(student.like(batch[EXPERT_OUTPUTS]).kl(student), batch["valid"].float())
        return Loss(kl, {"kl": kl})

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that runs epochs of SGD on each batch of steps labeled by the teacher."""
        config = self.config
        train = TrainOnBatch(
            trainee,
            num_epochs=config.num_epochs,
            minibatch_size=config.minibatch_size,
            seq_len=config.steps_in_row,
        )
        return (
            fragments.combine(ConcatBatches(config.train_batch_size))
            .for_each(train)
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )
