"""What the algorithms that learn from a replay share: the dataflow of those in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow
from rlrun.flow.operators import BroadcastWeights, LearnResult, MergeFilters, UpdateTargetNetwork
from rlrun.flow.replay import NormalizeReplayed, StoreToReplay, TrainOnReplayed, UpdatePriorities, replayed
from rlrun.functional.seeding import child_seed
from rlrun.replay.experience import Experience
from rlrun.replay.replay_buffer import ReplayBuffer
from rlrun.rollout.worker_set import WorkerSet

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee


def replay_of(config: Any, workers: WorkerSet, seed: int) -> ReplayBuffer:
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


def minibatches_of(replay: Experience, trainee: Trainee, config: Any) -> Flow[SampleBatch]:
    """Delivers the minibatches that are due out of a replay in this process, as the learner is to see them."""
    minibatches = replayed(
        replay,
        trainee.workers,
        batch_size=config.minibatch_size,
        training_intensity=config.training_intensity,
        learning_starts=config.learning_starts,
    )
    return minibatches.for_each(NormalizeReplayed(trainee)) if config.normalize_observations else minibatches


def learn_from_replay(
    rollouts: Flow[SampleBatch], trainee: Trainee, replay: Experience, config: Any
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
