"""A replay of rows keeps the newest rows and draws them uniformly."""

from __future__ import annotations

import numpy as np
import pytest

from rlrun.algorithms.alphazero.row_replay import RowReplay, RowReplayConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.replay.replay_config import SAVED_UP_TO_BYTES


def numbered_boards(first: int, number: int) -> SampleBatch:
    numbers = np.arange(first, first + number)[:, None]
    return SampleBatch(
        obs={"board": np.stack([numbers, -numbers], -1).astype(np.float32), "mask": numbers % 2 == 0},
        outcomes=numbers.astype(np.float32),
        valid=np.ones((number, 1), np.bool_),
        weights_version=np.zeros((number, 1), np.int32),
    )


def kept(replay: RowReplay) -> set[float]:
    return set(replay.sample(2000, 0)["outcomes"].ravel().tolist())


def test_all_columns_of_a_sampled_row_come_from_the_same_stored_row() -> None:
    replay = RowReplay(RowReplayConfig(capacity=50), seed=0)
    assert replay.add(0, numbered_boards(0, 20)) == 20
    batch = replay.sample(30, 0)
    assert batch["obs"]["board"].shape == (30, 1, 2)
    assert (batch["obs"]["board"][..., 0] == batch["outcomes"]).all()
    assert (batch["obs"]["board"][..., 1] == -batch["outcomes"]).all()
    assert (batch["obs"]["mask"] == (batch["outcomes"] % 2 == 0)).all()
    assert batch["valid"].all()
    assert "weights_version" not in batch
    assert (batch["indices"] == batch["outcomes"].ravel()).all()


@pytest.mark.parametrize("numbers", [[7, 9, 4, 6], [3, 25, 2], [0, 30]])
def test_only_the_newest_rows_are_kept_at_capacity(numbers: list[int]) -> None:
    replay, stored = RowReplay(RowReplayConfig(capacity=10), seed=0), 0
    for number in numbers:
        replay.add(0, numbered_boards(stored, number))
        stored += number
    assert replay.stored_steps == stored
    assert replay.num_ready == 10
    assert kept(replay) == set(range(stored - 10, stored))


def test_several_minibatches_drawn_at_once_equal_minibatches_drawn_one_by_one() -> None:
    together, one_by_one = (RowReplay(RowReplayConfig(capacity=8), 0) for _ in range(2))
    for replay in (together, one_by_one):
        replay.add(0, numbered_boards(0, 8))
    found = together.sample(5, 0, 3)["indices"]
    assert found.tolist() == [index for _ in range(3) for index in one_by_one.sample(5, 0)["indices"].tolist()]
    assert together.drawn_batches == one_by_one.drawn_batches == 3


def test_rows_are_drawn_uniformly() -> None:
    replay = RowReplay(RowReplayConfig(capacity=5), seed=3)
    replay.add(0, numbered_boards(0, 5))
    counts = np.bincount(replay.sample(20_000, 0)["indices"], minlength=5)
    np.testing.assert_allclose(counts / 20_000, 0.2, atol=0.01)


@pytest.mark.parametrize("numbers", [[], [4], [7, 9, 4]])
def test_a_restored_row_replay_draws_the_same_rows(numbers: list[int]) -> None:
    config, stored = RowReplayConfig(capacity=10), 0
    first, second = RowReplay(config, seed=0), RowReplay(config, seed=1)
    for number in numbers:
        first.add(0, numbered_boards(stored, number))
        stored += number
        first.sample(3, 0)
    second.load_state(first.state())
    assert (second.stored_steps, second.drawn_batches) == (first.stored_steps, first.drawn_batches)
    for replay in (first, second):
        replay.add(0, numbered_boards(stored, 3))
    one, other = first.sample(50, 0), second.sample(50, 0)
    assert (one["outcomes"] == other["outcomes"]).all()
    assert (one["obs"]["board"] == other["obs"]["board"]).all()


def test_rows_are_not_saved_in_checkpoints_if_save_in_checkpoints_is_false() -> None:
    replay = RowReplay(RowReplayConfig(capacity=10, save_in_checkpoints=False), seed=0)
    replay.add(0, numbered_boards(0, 4))
    assert not replay.is_saved
    assert replay.state()["kept"] is None
    other = RowReplay(RowReplayConfig(capacity=10), seed=1)
    other.load_state(replay.state())
    assert other.num_ready == 0


def test_large_replay_buffers_are_not_saved_by_default() -> None:
    per_row = 2 * 4 + 1 + 4  # the board, the mask and the outcome
    most = SAVED_UP_TO_BYTES // per_row
    for capacity, is_saved in ((most, True), (most + 1, False)):
        replay = RowReplay(RowReplayConfig(capacity=capacity), seed=0)
        replay.add(0, numbered_boards(0, 4))
        assert replay.num_bytes == capacity * per_row
        assert replay.is_saved == (replay.state()["kept"] is not None) == is_saved
