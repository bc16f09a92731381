"""Settings of algorithms that learn from a replay buffer."""

from __future__ import annotations

from typing_extensions import override

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.settings.config import (
    ConfigModel,
    Fraction,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Schedule,
    defaults,
    fixed,
)


@defaults(num_envs_per_worker=1, max_grad_norm=10.0)
@fixed("minibatches from a replay buffer are learned from in one process", num_learners=0, num_parameter_servers=0)
@fixed("a minibatch from a replay buffer is learned from as a whole", microbatch_size=None)
@fixed(
    "a replay buffer would keep each reward in the scale of its time; clip_rewards bounds them", normalize_rewards=False
)
class OffPolicyConfig(AlgorithmConfig):
    """Settings of an algorithm that learns from a replay buffer."""

    minibatch_size: PositiveInt = 64
    """Transitions per minibatch from the replay buffer."""
    rollout_fragment_length: PositiveInt | None = 4
    """Steps of each env between two rounds of updates; null for 1."""
    replay: ReplayConfig = ReplayConfig()
    """Settings of the replay buffer."""
    learning_starts: NonNegativeInt = 1000
    """Env steps that are stored before the first minibatch is sampled."""
    training_intensity: PositiveFloat = 0.25
    """Minibatches per env step after learning starts, for any number of envs."""
    n_step: PositiveInt = 1
    """Number n of steps in n-step returns."""
    target_update_interval: PositiveInt = 1
    """Minibatches between two updates of the target network."""
    tau: Fraction = 1.0
    """Polyak coefficient of the target network's updates; 1 copies the parameters."""

    @property
    @override
    def sgd_steps_per_env_step(self) -> float:
        return self.training_intensity


class ActorCriticSettings(ConfigModel):
    """Mixin for configs of `OffPolicyConfig`: learning rates of an actor and its critics (Q functions).

    List it before `OffPolicyConfig` among the base classes, so that its fields take precedence.
    """

    lr: Schedule = 3e-4
    """Learning rate of the actor."""
    critic_lr: Schedule = 1e-3
    """Learning rate of the critics."""
    learning_starts: NonNegativeInt = 1000
    """Env steps that are stored before the first minibatch is sampled; their actions are drawn uniformly."""


actor_critic_defaults = defaults(
    minibatch_size=256,
    rollout_fragment_length=1,
    max_grad_norm=None,
    training_intensity=1.0,
    tau=0.005,
    replay={"capacity": 1_000_000},
)
"""Class decorator: default settings of off-policy actor-critic algorithms."""
