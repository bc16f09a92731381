"""GRPO and RLOO: PPO without a value network, whose advantages compare episodes that start from the same state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Ge
from pydantic import model_validator
from typing_extensions import override

from rlrun.algorithms.groups.episode_groups import EpisodeGroups
from rlrun.algorithms.loss_metrics import CLIP_FRACTION, ENTROPY, GRAD_NORM, KL, KL_PENALTY_COEFF
from rlrun.algorithms.pg.complete_episodes import JoinEpisodes
from rlrun.algorithms.ppo import PPO, PPOConfig
from rlrun.algorithms.settings.on_policy import WHO_HAS_CONSTRAINTS, WHO_HAS_CURIOSITY, WITH_KL_PENALTY
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.settings.config import defaults, fixed
from rlrun.engine.settings.metric import Metric
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from torch import Tensor

NO_CRITIC: Mapping[str, Any] = {
    "gae_lambda": 0.95,
    "vf_clip_param": None,
    "vf_loss_coeff": 0.5,
    "recompute_advantages": False,
    "separate_grad_norms": False,
    "model": {"shared_value": False, "critic_sees": None},
}
"""Fixed settings of value networks."""


@fixed("there is no value network", **NO_CRITIC)
@fixed("a group is compared once its last episode has ended", asynchronous=False)
@fixed("returns are compared within a group", normalize_rewards=False)
@fixed(WHO_HAS_CURIOSITY, curiosity=None)
@fixed(WHO_HAS_CONSTRAINTS, constraint=None)
@defaults(gamma=1.0, num_epochs=4, rollout_fragment_length=32)
class GRPOConfig(PPOConfig):
    """Settings of GRPO (Shao et al., arXiv:2402.03300) and RLOO (Ahmadian et al., arXiv:2402.14740)."""

    group_size: Annotated[int, Ge(2)] = 8
    """Number of episodes in a group, all from the same start; a divisor of num_envs_per_worker."""

    @model_validator(mode="after")
    def _whole_groups_in_slots(self) -> GRPOConfig:
        if self.num_envs_per_worker % self.group_size:
            raise ValueError(
                f"group_size ({self.group_size}) must divide num_envs_per_worker ({self.num_envs_per_worker})"
            )
        return self

    @property
    @override
    def learns_values(self) -> bool:
        return False

    @property
    @override
    def episodes_per_seed(self) -> int:
        """Number of consecutive episodes of a worker that start from the same seed and form a group."""
        return self.group_size


class GRPO(PPO):
    """Group relative policy optimization: PPO without a critic, on returns standardized over a group of episodes.

    All episodes of a group start from the same state. Steps have equal weights, as in arXiv:2503.20783.

    Attributes:
        leave_one_out: Whether the baseline is the mean over the other episodes, and advantages are not divided by the
            standard deviation.

    Source:
        Shao et al., "DeepSeekMath", arXiv:2402.03300, section 4.1.
    """

    Config: ClassVar[type[GRPOConfig]] = GRPOConfig
    config: GRPOConfig
    policy_family = "rlrun.algorithms.groups.policy:LoggedActorPolicy"
    learns_in_worlds = False
    learner_metrics = (Metric("policy_loss", "", "Loss of the policy"), ENTROPY, GRAD_NORM, KL, CLIP_FRACTION)
    leave_one_out: ClassVar[bool] = False

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return (*EpisodeGroups.declared_metrics, *[KL_PENALTY_COEFF] * (self.config.kl_penalty is not None))

    @override
    def value_losses(self, outputs: Any, batch: SampleBatch, valid: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns a value loss of 0, without statistics."""
        return valid.new_zeros(()), {}

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that compares the episodes of each group, and runs PPO's epochs on batches of groups."""
        config = self.config
        batches = (
            fragments.zip_with_worker()
            .combine(EpisodeGroups(config.group_size, config.gamma, leave_one_out=self.leave_one_out))
            .combine(ConcatBatches(config.train_batch_size))
        )
        if config.steps_in_row is not None:
            batches = batches.for_each(JoinEpisodes())
        train = TrainOnBatch(
            trainee,
            num_epochs=config.num_epochs,
            minibatch_size=config.minibatch_size,
            seq_len=config.steps_in_row,
            stop=config.early_stop,
        )
        flow = batches.for_each(train).for_each(MergeFilters(trainee)).for_each(BroadcastWeights(trainee))
        return flow if config.kl_penalty is None else load_internal(WITH_KL_PENALTY)(flow, config.kl_penalty, trainee)


class RLOO(GRPO):
    """REINFORCE leave-one-out: critic-free PPO whose baseline is the mean return of a group's other episodes.

    All episodes of a group start from the same state.

    Source:
        Ahmadian et al., "Back to basics", arXiv:2402.14740, section 3.3; Kool et al., 2019, eq. 8.
    """

    leave_one_out = True
