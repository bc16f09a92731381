"""Replays in the trial's process, as the dataflows of several algorithms have them."""

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
    """Returns what an empty `local_replay` keeps its transitions in, for those who read them without drawing.

    Args:
        config: Its settings.
        trainee: Whose fragments it stores.
        n_step: Steps whose rewards are added up before the value of the next observation counts.
        gamma: Discount.
    """
    number, seed = len(trainee.workers.indices), child_seed(trainee.seed, "replay")
    return ReplayBuffer(config, num_workers=number, n_step=n_step, gamma=gamma, seed=seed)


def local_replay(config: ReplayConfig, trainee: Trainee, *, n_step: int, gamma: float) -> LocalReplay:
    """Returns an empty replay of n-step transitions in this process.

    Args:
        config: Its settings.
        trainee: Whose fragments it stores.
        n_step: Steps whose rewards are added up before the value of the next observation counts.
        gamma: Discount.
    """
    return LocalReplay(replay_buffer(config, trainee, n_step=n_step, gamma=gamma), trainee.workers.indices)


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
    workers = trainee.workers.indices
    sequences = SequenceReplay(
        config, num_workers=len(workers), n_step=n_step, gamma=gamma, seed=child_seed(trainee.seed, "replay")
    )
    return LocalReplay(sequences, workers)
