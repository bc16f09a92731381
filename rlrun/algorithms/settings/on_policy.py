"""Settings of on-policy algorithms, which learn from batches of newly collected experience."""

from __future__ import annotations

from typing import ClassVar

from pydantic import model_validator
from typing_extensions import override

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.envs.env_config import LoggedActions
from rlrun.engine.reward_streams.settings import ConstraintConfig, CuriosityConfig
from rlrun.engine.reward_streams.streams import RewardStreams
from rlrun.engine.settings.config import ConfigModel, PositiveInt, fixed

WHO_HAS_CURIOSITY = "only ppo, a2c, impala and appo support intrinsic rewards"
"""Error message on `curiosity` in algorithms without intrinsic value heads."""

WHO_HAS_CONSTRAINTS = "only ppo, a2c and pg support cost constraints"
"""Error message on `constraint` in algorithms without cost value heads."""

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

    @model_validator(mode="after")
    def _curiosity_of_workers(self) -> OnPolicyConfig:
        if self.curiosity is not None and self.gathered_by is not None:
            raise ValueError(
                f"curiosity computes intrinsic rewards on each worker's fragments; leave out {self.gathered_by}"
            )
        return self

    @property
    @override
    def reward_streams(self) -> RewardStreams:
        """Reward streams in addition to the env's rewards: intrinsic rewards and costs."""
        return RewardStreams(self.curiosity, self.constraint)

    @property
    def gathered_by(self) -> str | None:
        """Name of the setting by which rollout fragments of several workers are merged before they reach the learner.

        None if no setting merges fragments.
        """
        return None

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
