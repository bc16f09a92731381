"""The parts whose state a checkpoint may lack report whether a restored training continues bit for bit."""

import numpy as np
import pytest

from rlrun import A3C, DQN, PPO, R2D2, Gorila, Impala, Training

SMALL = {"num_envs_per_worker": 2, "min_env_steps_per_iteration": 100, "model": {"hiddens": [8]}, "compile": False}
REPLAYED = {**SMALL, "learning_starts": 50, "minibatch_size": 8}
SEQUENCES = {"capacity": 1000, "burn_in": 2, "length": 4, "stride": 2}


def restored(tmp_path, algorithm, settings):
    """Returns what the checkpoint lacked, and whether the restored training learned the same bit for bit."""
    with Training("CartPole-v1", algorithm(**settings), seed=1) as one:
        for _ in range(3):
            one.step()
        one.save(tmp_path / "checkpoint")
        one.step()
        flat = one.running.trainee.learner.flat()
    with Training.restore(tmp_path / "checkpoint") as other:
        other.step()
        return other.running.unsaved, np.array_equal(other.running.trainee.learner.flat(), flat)


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        (PPO, {**SMALL, "train_batch_size": 64}),
        (PPO, {**SMALL, "train_batch_size": 64, "asynchronous": True}),
        (A3C, SMALL),
        (DQN, {**REPLAYED, "replay": {"capacity": 1000}}),
        (R2D2, {**REPLAYED, "replay": SEQUENCES}),
        (Gorila, {**REPLAYED, "replay": {"capacity": 1000}}),
    ],
)
def test_a_restore_with_a_local_worker_and_a_saved_replay_buffer_is_exact(tmp_path, algorithm, settings):
    assert restored(tmp_path, algorithm, settings) == ((), True)


@pytest.mark.parametrize(
    ("algorithm", "settings", "lacking"),
    [
        (DQN, {**REPLAYED, "replay": {"save_in_checkpoints": False}}, "the replay buffer is not saved"),
        (R2D2, {**REPLAYED, "replay": {**SEQUENCES, "save_in_checkpoints": False}}, "the replay buffer is not saved"),
        (Gorila, {**REPLAYED, "replay": {"save_in_checkpoints": False}}, "the replay buffer is not saved"),
        (Impala, {**SMALL, "train_batch_size": 80}, "workers acted with older weights"),
    ],
)
def test_a_restore_that_is_not_exact_lists_what_was_not_saved(tmp_path, algorithm, settings, lacking):
    (said,), is_equal = restored(tmp_path, algorithm, settings)
    assert said.startswith(lacking)
    assert not is_equal
