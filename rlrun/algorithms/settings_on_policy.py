"""Settings of algorithms that learn from batches of fresh experience."""

from __future__ import annotations

from rlrun.algorithm_config import AlgorithmConfig
from rlrun.config import ConfigModel, Fraction, NonEmptyText, NonNegativeFloat, PositiveFloat, PositiveInt
from rlrun.policy.curiosity_config import CuriosityConfig
from rlrun.policy.reward_streams import COST, INTRINSIC, INTRINSIC_REWARDS, RewardStream

WHO_HAS_CURIOSITY = "ppo, a2c, impala and appo have values of intrinsic rewards; take one of them"
"""Why other algorithms refuse `curiosity`."""

WHO_HAS_CONSTRAINTS = "ppo and a2c have values of costs; take one of them"
"""Why other algorithms refuse `constraint`."""

SHAPING = ("curiosity", "constraint", "curiosity.kind", "curiosity.hiddens", "curiosity.features")
"""Settings of further streams of rewards that decide which parameters there are."""


class ConstraintConfig(ConfigModel):
    """A bound of what an episode costs on average."""

    column: NonEmptyText
    """The cost of each step: a number in its info, which `env.columns` names."""
    limit: NonNegativeFloat
    """What an episode may cost on average, not discounted."""
    gamma: Fraction = 0.99
    """Discount of future costs."""
    gae_lambda: Fraction = 0.95
    """Weight between one-step (0) and Monte Carlo (1) advantages of costs."""
    multiplier_lr: PositiveFloat = 0.05
    """How far the multiplier moves at each update per unit of cost above or below the limit."""


class OnPolicyConfig(AlgorithmConfig):
    """Settings of an algorithm that learns from each batch of fresh experience."""

    train_batch_size: PositiveInt = 2048
    """Env steps that are collected for an update, over all workers and envs. In a world of many agents each slot of the
    policy counts as an env, whether an agent is in it or not."""
    rollout_fragment_length: PositiveInt | None = None
    """Steps of each env in one fragment; null for as many as let one fragment of every worker fill a batch."""
    seq_len: PositiveInt = 16
    """With a recurrent network (`model.core`): consecutive steps over which gradients flow back through time, no more
    than a fragment holds. Minibatches are whole sequences of so many steps, each of which begins with the recurrent
    state that was recorded while acting."""
    curiosity: CuriosityConfig | None = None
    """Rewards for what is new, beside those of the env; null for none."""
    constraint: ConstraintConfig | None = None
    """A bound of what an episode costs on average; null for none."""

    @property
    def reward_streams(self) -> tuple[RewardStream, ...]:
        """Streams of rewards beside the env's own, each of which has a value of its own."""
        streams = []
        if (own := self.curiosity) is not None:
            streams.append(RewardStream(INTRINSIC, INTRINSIC_REWARDS, own.gamma, own.gae_lambda, is_episodic=False))
        if (bound := self.constraint) is not None:
            streams.append(RewardStream(COST, bound.column, bound.gamma, bound.gae_lambda))
        return tuple(streams)

    @property
    def env_columns(self) -> tuple[str, ...]:
        """Columns that it learns from besides rewards: the cost that is bounded."""
        return () if self.constraint is None else (self.constraint.column,)

    @classmethod
    def shapes_parameters(cls, path: str) -> bool:
        """Whether a setting decides which parameters and statistics there are."""
        return path in SHAPING or super().shapes_parameters(path)

    @property
    def steps_in_row(self) -> int | None:
        """Steps of a sequence if the network is recurrent; None if it learns from single steps."""
        return None if self.model.core is None else self.seq_len

    @property
    def fragment_length(self) -> int:
        """Steps of each env in one fragment."""
        return self.rollout_fragment_length or max(-(-self.train_batch_size // self.env_slots), 1)

    @property
    def env_steps_per_update(self) -> int:
        """Env steps that are collected between two turns of learning."""
        return self.train_batch_size
