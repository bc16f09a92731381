"""Replays in shards, which are processes of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlrun.flow.recipes.replays import local_replay
from rlrun.replay.replay import LocalReplay
from rlrun.replay.replay_shards import ReplayShards

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee
    from rlrun.replay.replay_config import ReplayConfig


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
