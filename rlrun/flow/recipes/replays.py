"""Constructors of local replay buffers, in the trial's process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlrun.functional.seeding import child_seed
from rlrun.replay.replay import LocalReplay
from rlrun.replay.replay_buffer import ReplayBuffer
from rlrun.replay.sequences import SequenceReplay

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee
    from rlrun.replay.replay_config import ReplayConfig
    from rlrun.replay.sequences import SequenceReplayConfig


def replay_buffer(config: ReplayConfig, trainee: Trainee, *, n_step: int, gamma: float) -> ReplayBuffer:
    """Creates the empty replay buffer of n-step transitions used by `local_replay`, for access without sampling.

    Args:
        config: Settings of the replay.
        trainee: The trainee whose fragments are stored.
        n_step: Length n of the n-step return, before bootstrapping.
        gamma: Discount factor.
    """
    number, seed = len(trainee.workers.indices), child_seed(trainee.seed, "replay")
    return ReplayBuffer(config, num_workers=number, n_step=n_step, gamma=gamma, seed=seed)


def local_replay(config: ReplayConfig, trainee: Trainee, *, n_step: int, gamma: float) -> LocalReplay:
    """Creates an empty local replay of n-step transitions.

    Args:
        config: Settings of the replay.
        trainee: The trainee whose fragments are stored.
        n_step: Length n of the n-step return, before bootstrapping.
        gamma: Discount factor.
    """
    return LocalReplay(replay_buffer(config, trainee, n_step=n_step, gamma=gamma), trainee.workers.indices)


def transitions_or_sequences(
    config: SequenceReplayConfig, trainee: Trainee, *, n_step: int, gamma: float, is_recurrent: bool
) -> LocalReplay:
    """Creates an empty local replay: of sequences for a recurrent network, else of n-step transitions.

    Args:
        config: Settings of the replay.
        trainee: The trainee whose fragments are stored.
        n_step: Length n of the n-step return, before bootstrapping.
        gamma: Discount factor.
        is_recurrent: Whether the network has a recurrent core.
    """
    if not is_recurrent:
        return local_replay(config, trainee, n_step=n_step, gamma=gamma)
    workers = trainee.workers.indices
    sequences = SequenceReplay(
        config, num_workers=len(workers), n_step=n_step, gamma=gamma, seed=child_seed(trainee.seed, "replay")
    )
    return LocalReplay(sequences, workers)
