"""Settings of on-policy algorithms, which learn from batches of newly collected experience."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator
from typing_extensions import override

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.envs.env_config import LoggedActions
from rlrun.engine.reward_streams.settings import ConstraintConfig, CuriosityConfig
from rlrun.engine.reward_streams.streams import RewardStreams
from rlrun.engine.settings.config import AdaptiveRate, ConfigModel, PositiveFloat, PositiveInt, fixed

WHO_HAS_CURIOSITY = "only ppo, a2c, impala and appo support intrinsic rewards"
"""Error message for `curiosity` in algorithms without intrinsic value heads."""

WHO_HAS_CONSTRAINTS = "only ppo, a2c and pg support cost constraints"
"""Error message for `constraint` in algorithms without cost value heads."""

WITH_KL_PENALTY = "rlrun.algorithms.kl_penalty:with_kl_penalty"
"""Import path of the function that extends a dataflow with the KL penalty, imported only if needed."""

VALUE_NETWORK = r"(^|\.)(intrinsic_|cost_)?value[_.]"
"""Pattern in the names of parameters that belong to a separate value network."""

SHAPING = ("curiosity", "constraint", "curiosity.kind", "curiosity.hiddens", "curiosity.features")
"""Settings of additional reward streams that determine the parameters' shapes."""

advantages_in_the_loss = fixed(WHO_HAS_CONSTRAINTS, constraint=None)
"""Class decorator: rejects `constraint` in settings of algorithms that estimate advantages in their loss."""


class OnPolicyConfig(AlgorithmConfig):
    """Settings of an on-policy algorithm, which learns from each batch of newly collected experience."""

    of_logged_actions: ClassVar[LoggedActions] = "refuse"

    train_batch_size: PositiveInt = 2048
    """Steps collected for an update, over all workers and envs. They include one step per episode at which the env is
    reset, which is not counted in `env_steps`. In a multi-agent world each agent slot of the policy counts as an env,
    occupied or not."""
    rollout_fragment_length: PositiveInt | None = None
    """Steps of each env in one fragment; null for the length at which one fragment of every worker fills a batch."""
    seq_len: PositiveInt = 16
    """Sequence length for a recurrent network (`model.core`): steps of truncated backpropagation through time, at most
    a fragment. Minibatches consist of whole sequences, each of which starts from the recurrent state recorded while
    acting."""
    curiosity: CuriosityConfig | None = None
    """Intrinsic rewards for novelty, in addition to the env's rewards; null for none."""
    constraint: ConstraintConfig | None = None
    """Constraint on the mean cost of an episode; null for none."""

    @model_validator(mode="after")
    def _whole_sequences_of_a_batch(self) -> OnPolicyConfig:
        size = self.steps_at_once
        if size is not None and size > self.train_batch_size:
            raise ValueError(f"minibatch_size ({size}) must not exceed train_batch_size ({self.train_batch_size})")
        if size is not None and self.model.core is not None and size % self.seq_len:
            raise ValueError(
                f"minibatch_size ({size}) must be a multiple of seq_len ({self.seq_len}), because minibatches "
                "of a recurrent network hold whole sequences"
            )
        return self

    @property
    @override
    def reward_streams(self) -> RewardStreams:
        """Reward streams in addition to the env's rewards: intrinsic rewards and costs."""
        return RewardStreams(self.curiosity, self.constraint)

    @property
    @override
    def env_columns(self) -> tuple[str, ...]:
        """Names of additional env outputs that the algorithm reads: the cost of its constraint, if it has one."""
        return () if self.constraint is None else (self.constraint.column,)

    @classmethod
    @override
    def shapes_parameters(cls, path: str) -> bool:
        return path in SHAPING or super().shapes_parameters(path)

    @property
    def steps_at_once(self) -> int | None:
        """Number of steps in each minibatch of a batch; None if batches are not divided into minibatches."""
        return None

    @property
    def steps_in_row(self) -> int | None:
        """Length of training sequences for a recurrent network; None for a feed-forward network."""
        return None if self.model.core is None else self.seq_len

    @property
    @override
    def fragment_length(self) -> int:
        return self.rollout_fragment_length or max(-(-self.train_batch_size // self.env_slots), 1)

    @property
    @override
    def env_steps_per_update(self) -> int:
        return self.train_batch_size


class KLPenaltyConfig(ConfigModel):
    """Settings of PPO's penalty on the KL divergence of the current policy from the policy that collected the batch."""

    coeff: PositiveFloat = 0.2
    """Weight of the penalty (beta in arXiv:1707.06347, eq. 8); the initial weight if there is a target."""
    target: PositiveFloat | None = 0.01
    """Mean KL divergence per update to which the weight is adapted: it is multiplied by 1.5 above twice the target, and
    by 0.5 below half the target; null for a constant weight."""


class EpochsSettings(ConfigModel):
    """Mixin for subclasses of `OnPolicyConfig`: epochs of minibatch SGD over each batch.

    List it before `OnPolicyConfig` among the base classes.
    """

    num_epochs: PositiveInt = 10
    """Epochs (passes over each batch)."""
    minibatch_size: PositiveInt = 64
    """Steps per minibatch; the last minibatch of an epoch is padded with steps of weight 0."""

    @property
    def steps_at_once(self) -> int:
        """Number of steps in each of the minibatches into which a batch is divided."""
        return self.minibatch_size

    @property
    def sgd_steps_per_env_step(self) -> float:
        """Number of minibatch SGD steps per collected env step."""
        return self.num_epochs / self.minibatch_size


class PPOSettings(EpochsSettings):
    """Mixin for subclasses of `OnPolicyConfig`: PPO's settings that bound updates by means other than the loss."""

    asynchronous: bool = False
    """Whether remote workers collect while the learner learns, with weights up to one batch old, instead of waiting."""
    early_stop_kl: PositiveFloat | None = None
    """Early stopping: no further epoch begins once the mean KL divergence of an epoch exceeds 1.5 times this; null for
    none."""
    kl_penalty: KLPenaltyConfig | None = None
    """Penalty on the KL divergence from the policy that collected the batch, in addition to clipping; null for none."""
    recompute_advantages: bool = False
    """Whether advantages and value targets are computed again before each epoch except the first, with the current
    network's values (arXiv:2006.05990, section 3.5)."""
    separate_grad_norms: bool = False
    """Whether `max_grad_norm` bounds the gradients of the policy network and of the value network separately, instead
    of their joint norm. Requires model.shared_value: false."""

    @property
    def early_stop(self) -> tuple[str, float] | None:
        """Early stopping as (statistic, bound), for `TrainOnBatch`; None for no early stopping."""
        return None if self.early_stop_kl is None else ("kl", 1.5 * self.early_stop_kl)

    @property
    def adaptive_lr(self: Any) -> AdaptiveRate | None:
        """Rule that adapts the learning rate to updates' KL divergence; None if the rate is a number or a schedule."""
        return self.lr if isinstance(self.lr, AdaptiveRate) else None

    @property
    def clipped_separately(self) -> str:
        """Pattern of the value network's parameter names if their gradients are clipped separately; else ""."""
        return VALUE_NETWORK if self.separate_grad_norms else ""

    @model_validator(mode="after")
    def _one_rule_by_kl(self: Any) -> Any:
        if self.adaptive_lr is None:
            return self
        if self.early_stop_kl is not None:
            raise ValueError("early_stop_kl and lr.adaptive_kl both limit the KL divergence; leave out one of them")
        return self

    @model_validator(mode="after")
    def _advantages_of_rewards_alone(self: Any) -> Any:
        if self.recompute_advantages and self.constraint is not None:
            raise ValueError("recompute_advantages does not support constraint; leave out one of them")
        return self

    @model_validator(mode="after")
    def _networks_apart(self: Any) -> Any:
        if not self.separate_grad_norms:
            return self
        if self.model.shared_value is not False or self.model.module is not None:
            raise ValueError("separate_grad_norms needs model.shared_value: false, and no model.module")
        return self
