"""Settings of algorithms that learn from a replay buffer: replay, action noise, critics, asynchronous collection."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator
from typing_extensions import override

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.settings.config import (
    ConfigModel,
    Fraction,
    ImportPath,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Schedule,
    defaults,
    fixed,
)

ActorObjective = Literal["first", "minimum", "mean"]
"""Value that an actor maximizes: the first critic's, the critics' minimum, or their mean."""

NoiseKind = Literal["gaussian", "repeated_gaussian", "ornstein_uhlenbeck"]
"""Names of the built-in exploration noises for deterministic actors."""


@defaults(num_envs_per_worker=1, max_grad_norm=10.0)
@fixed("a minibatch from a replay buffer is used as a whole", microbatch_size=None)
@fixed("a replay buffer would mix rewards of different scales; set reward_scale instead", normalize_rewards=False)
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

    @model_validator(mode="after")
    def _equal_shares(self) -> OffPolicyConfig:
        if self.num_learners and self.minibatch_size % self.num_learners:
            raise ValueError(
                f"minibatch_size ({self.minibatch_size}) must be a multiple of num_learners ({self.num_learners}), "
                "because all learners have equal shares of a minibatch"
            )
        return self

    @property
    @override
    def sgd_steps_per_env_step(self) -> float:
        return self.training_intensity


class ActorCriticSettings(ConfigModel):
    """Mixin for subclasses of `OffPolicyConfig`: learning rates of an actor and its critics (Q functions).

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


class ActionNoiseSettings(ConfigModel):
    """Mixin for subclasses of `OffPolicyConfig`: exploration noise added to the actions of a deterministic actor."""

    exploration: NoiseKind | ImportPath = "gaussian"
    """Exploration noise of actions in training: Gaussian, independent at each step; Gaussian noise that is held for 1
    to 16 steps (FlashSAC, arXiv:2604.04539); or an Ornstein-Uhlenbeck process. `package.module:Class` is a custom
    exploration."""
    exploration_noise: Schedule = 0.1
    """Standard deviation of the Gaussian noise, or of the Ornstein-Uhlenbeck process's increments, in units of half the
    distance between the action bounds."""
    ou_theta: Fraction = 0.15
    """Mean reversion rate theta of the Ornstein-Uhlenbeck process: the fraction of the noise that decays per step."""


class CriticEnsembleSettings(ConfigModel):
    """Mixin for subclasses of `OffPolicyConfig`: number of critics, and their use in targets and by the actor."""

    num_critics: PositiveInt = 2
    """Number of critics (Q functions), N."""
    num_target_critics: PositiveInt | None = None
    """Number M of target critics whose minimum the targets use, drawn at random for each minibatch (REDQ,
    arXiv:2101.05982, algorithm 1); null for all N."""
    actor_objective: ActorObjective = "minimum"
    """Value that the actor maximizes: the value of the `first` critic, the `minimum` of all critics, or their
    `mean`, as in REDQ."""
    policy_delay: PositiveInt = 1
    """Policy delay: number of critic updates per update of the actor, and of a temperature."""

    @classmethod
    def shapes_parameters(cls, path: str) -> bool:
        """Whether a setting determines the shapes of parameters; see `AlgorithmConfig.shapes_parameters`."""
        return path == "num_critics" or super().shapes_parameters(path)  # type: ignore[misc]  # from `AlgorithmConfig`

    @model_validator(mode="after")
    def _draws_among_the_critics(self) -> CriticEnsembleSettings:
        if self.num_target_critics is not None and self.num_target_critics > self.num_critics:
            raise ValueError(
                f"num_target_critics ({self.num_target_critics}) must not exceed num_critics ({self.num_critics})"
            )
        return self


class AsynchronyConfig(ConfigModel):
    """Settings of the concurrency of workers, replay buffer and learner."""

    replay_shards: NonNegativeInt = 1
    """Processes (shards) that hold the replay buffer, each with the fragments of its share of the remote workers.
    Shards reserve no CPUs. With 0, or without remote workers, the buffer is in the trial's process."""
    minibatches_in_flight: PositiveInt = 32
    """Minibatches requested in advance from each replay shard, so that the learner never waits for one. All of them may
    be in memory at once: 512 steps of Atari take 29 MB. Fewer suffice for a large network."""
    rollouts_in_flight: PositiveInt = 2
    """Fragments requested in advance from each worker."""
    minibatches_per_fragment: PositiveInt = 1
    """Minimum number of minibatches per stored fragment once learning has started: faster workers wait, and slower ones
    leave time for more. With the replay buffer and the only worker in the trial's process, the number is exact."""
    weights_age: PositiveInt = 50
    """Age of a worker's weights, in minibatches, at which the worker is sent new ones with its next fragment. In the
    paper, actors copy the weights every 400 frames, in which the learner takes about 56 minibatches."""


class DistributedReplaySettings(ConfigModel):
    """Mixin for subclasses of `OffPolicyConfig`: settings of distributed replay as in Ape-X, for any loss.

    List it before `OffPolicyConfig` among the base classes, so that its defaults take precedence.
    """

    rollout_fragment_length: PositiveInt | None = 50
    """Steps of each env in one fragment, which enters the replay buffer as a whole; null for 1."""
    training_intensity: PositiveFloat = 1000.0
    """Maximum number of minibatches per env step after learning starts. The default is no limit in practice: Ape-X
    learns as fast as possible, and the metric minibatches_per_env_step reports the resulting ratio."""
    asynchrony: AsynchronyConfig = AsynchronyConfig()
    """Concurrency of workers, replay buffer and learner."""
