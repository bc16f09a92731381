"""Replays as the dataflows of several algorithms have them: in the trial's process, or in shards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rlrun.functional.seeding import child_seed
from rlrun.replay.replay import LocalReplay
from rlrun.replay.replay_buffer import ReplayBuffer
from rlrun.replay.replay_shards import ReplayShards
from rlrun.replay.sequences import SequenceReplay

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee
    from rlrun.replay.replay_config import ReplayConfig
    from rlrun.replay.sequences import SequenceReplayConfig


def local_replay(config: ReplayConfig, trainee: Trainee, *, n_step: int, gamma: float) -> LocalReplay:
    """Returns an empty replay of n-step transitions in this process.

    Args:
        config: Its settings.
        trainee: Whose fragments it stores.
        n_step: Steps whose rewards are added up before the value of the next observation counts.
        gamma: Discount.
    """
    return _kept_here(partial(ReplayBuffer, config, n_step=n_step, gamma=gamma), trainee)


def transitions_or_sequences(
    config: SequenceReplayConfig, trainee: Trainee, *, n_step: int, gamma: float, is_recurrent: bool
) -> LocalReplay:
    """Returns an empty replay in this process: of sequences for a recurrent network, else as `local_replay` does.

    Args:
        config: Its settings.
        trainee: Whose fragments it stores.
        n_step: Steps whose rewards are added up before the value of the next observation counts.
        gamma: Discount.
        is_recurrent: Whether the network has a core.
    """
    if not is_recurrent:
        return local_replay(config, trainee, n_step=n_step, gamma=gamma)
    return _kept_here(partial(SequenceReplay, config, n_step=n_step, gamma=gamma), trainee)


def _kept_here(make: Callable[..., ReplayBuffer | SequenceReplay], trainee: Trainee) -> LocalReplay:
    workers = trainee.workers.indices
    return LocalReplay(make(num_workers=len(workers), seed=child_seed(trainee.seed, "replay")), workers)


def distributed_replay(
    config: ReplayConfig,
    trainee: Trainee,
    *,
    n_step: int,
    gamma: float,
    shards: int,
    minibatches_in_flight: int,
    minibatches_per_fragment: int,
    timeout_s: float,
    max_restarts: int,
) -> LocalReplay | ReplayShards:
    """Returns an empty replay in shards beside remote workers; in this process with the local worker, or 0 shards.

    Args:
        config: Its settings; shards share its capacity.
        trainee: Whose fragments it stores.
        n_step: Steps whose rewards are added up before the value of the next observation counts.
        gamma: Discount.
        shards: Most processes that keep it.
        minibatches_in_flight: Minibatches that each shard is asked for ahead of time.
        minibatches_per_fragment: Minibatches that are sampled before the next fragment is welcome.
        timeout_s: Seconds after which a shard that has not answered is made anew.
        max_restarts: Shards made anew before the failure becomes the trial's.
    """
    if not (trainee.workers.num_workers and shards):
        return local_replay(config, trainee, n_step=n_step, gamma=gamma)
    return ReplayShards(
        config,
        shards,
        trainee.workers.indices,
        n_step=n_step,
        gamma=gamma,
        seed=trainee.seed,
        minibatches_in_flight=minibatches_in_flight,
        minibatches_per_fragment=minibatches_per_fragment,
        timeout_s=timeout_s,
        max_restarts=max_restarts,
    )
