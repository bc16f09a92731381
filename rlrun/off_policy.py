"""What the algorithms that learn from a replay share: their settings, and the dataflow of those in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import model_validator

from rlrun.algorithm_config import AlgorithmConfig
from rlrun.config import ConfigModel, Fraction, NonNegativeInt, PositiveFloat, PositiveInt, Schedule
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow
from rlrun.flow.operators import BroadcastWeights, LearnResult, MergeFilters, UpdateTargetNetwork
from rlrun.flow.replay import NormalizeReplayed, StoreToReplay, TrainOnReplayed, UpdatePriorities, replayed
from rlrun.functional.seeding import child_seed
from rlrun.nn.model_config import ModelConfig
from rlrun.replay.experience import Experience
from rlrun.replay.replay_buffer import ReplayBuffer
from rlrun.replay.replay_config import ReplayConfig
from rlrun.rollout.worker_set import WorkerSet

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee


class OffPolicyConfig(AlgorithmConfig):
    """Settings that every algorithm has which learns from a replay; each adds its own."""

    train_batch_size: PositiveInt = 64
    """Steps in a minibatch drawn from the replay."""
    num_envs_per_worker: PositiveInt = 1
    """Envs that a worker steps side by side."""
    rollout_fragment_length: PositiveInt | None = 4
    """Steps of each env between two times that learning has its turn."""
    min_env_steps_per_iteration: NonNegativeInt = 1000
    """An iteration, after which a result is written, goes on until at least so many env steps have been taken."""
    max_grad_norm: PositiveFloat | None = 10.0
    """Bound of the gradient's norm; null for none."""
    replay: ReplayConfig = ReplayConfig()
    """The experience that is kept."""
    learning_starts: NonNegativeInt = 1000
    """Env steps that are put by before the first minibatch is drawn."""
    training_intensity: PositiveFloat = 0.25
    """Minibatches learned from for every env step after that; counted, so that it holds over any number of envs."""
    n_step: PositiveInt = 1
    """Steps whose rewards are added up before the value of the next observation counts."""
    target_update_interval: PositiveInt = 1
    """Minibatches between two updates of the target network."""
    tau: Fraction = 1.0
    """How far the target network moves towards the present one at an update; 1 copies it."""

    @model_validator(mode="after")
    def _learns_in_one_process(self) -> OffPolicyConfig:
        if self.num_learners:
            raise ValueError("num_learners must be 0: minibatches from a replay are learned from in one process")
        if self.microbatch_size is not None:
            raise ValueError("microbatch_size must be null: a replay's minibatch is learned from as a whole")
        return self

    @property
    def fragment_length(self) -> int:
        """Steps of each env in one fragment."""
        return self.rollout_fragment_length or 1

    @property
    def sgd_steps_per_env_step(self) -> float:
        """Minibatches per env step."""
        return self.training_intensity


class ActorQConfig(ConfigModel):
    """Settings that learners of an actor under Q functions (its critics) share, beside those of `OffPolicyConfig`.

    It stands beside `OffPolicyConfig` and before it among the bases of such settings, so that its defaults hold.
    """

    critic_lr: Schedule = 1e-3
    """Learning rate of the critics."""
    train_batch_size: PositiveInt = 256
    """Steps in a minibatch drawn from the replay."""
    rollout_fragment_length: PositiveInt | None = 1
    """Steps of each env between two times that learning has its turn."""
    max_grad_norm: PositiveFloat | None = None
    """Bound of the gradient's norm; null for none."""
    learning_starts: NonNegativeInt = 1000
    """Env steps that are put by before the first minibatch is drawn; their actions are drawn uniformly."""
    training_intensity: PositiveFloat = 1.0
    """Minibatches learned from for every env step after that; counted, so that it holds over any number of envs."""
    tau: Fraction = 0.005
    """How far the target networks move towards the present ones at an update; 1 copies them."""
    model: ModelConfig = ModelConfig(hiddens=(256, 256), activation="relu", orthogonal_init=False)
    """The networks of the actor and of each critic."""


def replay_of(config: OffPolicyConfig, workers: WorkerSet, seed: int) -> ReplayBuffer:
    """Returns an empty replay in this process.

    Args:
        config: Its settings.
        workers: Whose fragments it is to keep.
        seed: Root seed.
    """
    return ReplayBuffer(
        config.replay,
        num_lanes=len(workers.indices),
        n_step=config.n_step,
        gamma=config.gamma,
        seed=child_seed(seed, "replay"),
    )


def minibatches_of(replay: Experience, trainee: Trainee, config: OffPolicyConfig) -> Flow[SampleBatch]:
    """Delivers the minibatches that are due out of a replay in this process, as the learner is to see them."""
    minibatches = replayed(
        replay,
        trainee.workers,
        batch_size=config.train_batch_size,
        training_intensity=config.training_intensity,
        learning_starts=config.learning_starts,
    )
    return minibatches.for_each(NormalizeReplayed(trainee)) if config.normalize_observations else minibatches


def learn_from_replay(
    rollouts: Flow[SampleBatch], trainee: Trainee, replay: Experience, config: OffPolicyConfig
) -> Flow[LearnResult]:
    """Puts each fragment by, learns from as many minibatches as are due then, and sends new weights.

    Args:
        rollouts: Fragments with raw observations.
        trainee: Who learns, with the workers that collect them.
        replay: Where they are kept.
        config: How much is learned from them.
    """
    updates = (
        minibatches_of(replay, trainee, config)
        .for_each(TrainOnReplayed(trainee))
        .for_each(UpdatePriorities(replay))
        .for_each(UpdateTargetNetwork(trainee.learner, config.target_update_interval, config.tau))
    )
    return (
        rollouts.zip_with_worker()
        .for_each(StoreToReplay(replay, trainee.workers))
        .followed_by(updates)
        .for_each(MergeFilters(trainee))
        .for_each(BroadcastWeights(trainee))
    )
