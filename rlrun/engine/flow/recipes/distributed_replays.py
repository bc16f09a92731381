"""Constructor of distributed replays, sharded over processes (as in Ape-X)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlrun.engine.replay.replay_shards import ReplayShards

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.replay.replay import Replay
    from rlrun.engine.replay.replay_config import ReplayConfig


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
) -> Replay:
    """Creates an empty replay: sharded over processes with remote workers, local without workers or with 0 shards.

    Args:
        config: Settings of the replay, whose capacity is divided among shards.
        trainee: The trainee whose fragments are stored.
        n_step: Length n of the n-step return, before bootstrapping.
        gamma: Discount factor.
        shards: Maximum number of shard processes.
        minibatches_in_flight: Minibatches prefetched from each shard.
        minibatches_per_fragment: Minibatches sampled before the next fragment is accepted.
        timeout_s: Seconds without an answer after which a shard is restarted.
        max_restarts: Maximum number of shard restarts before the trial fails.
    """
    if not (trainee.workers.num_workers and shards):
        return trainee.make_replay(config, n_step=n_step, gamma=gamma)
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
        make_goals=trainee.make_goals,
    )
