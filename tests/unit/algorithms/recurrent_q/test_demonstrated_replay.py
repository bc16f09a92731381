from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.algorithms.recurrent_q.demonstrated_replay import DemonstratedReplay
from rlrun.engine.data.demonstrations import Demonstrations, load_demonstrations
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.functional.reward_scale import UNSCALED, RewardScale
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.replay.replay_config import SequenceReplayConfig
from rlrun.engine.replay.sequences import SequenceReplay

SHOWN_STEPS = 30


@pytest.fixture
def shown(tmp_path: Path) -> str:
    """Demonstrations of one episode, with observations 1000, 1001, ... and a final reward of 7."""
    valid = np.arange(SHOWN_STEPS + 1) < SHOWN_STEPS
    last = np.arange(SHOWN_STEPS + 1) == SHOWN_STEPS - 1
    columns = {
        "actions": np.ones(SHOWN_STEPS + 1, np.int64),
        "rewards": np.where(last, 7.0, 0.0),
        "terminateds": last,
        "truncateds": np.zeros(SHOWN_STEPS + 1, np.bool_),
        "valid": valid,
    }
    path = tmp_path / "shown.npz"
    Demonstrations(columns, {"": 1000.0 + np.arange(SHOWN_STEPS + 1)[:, None]}, {}).save(path)
    return str(path)


PRIORITIZED = {"sampling": "prioritized", "priority_alpha": 0.9, "priority_beta": 0.6}


def replay_of(
    demonstrations: str | None, ratio: float, scale: RewardScale = UNSCALED, **settings: Any
) -> DemonstratedReplay:
    config = SequenceReplayConfig(
        capacity=500,
        **{
            "sampling": "prioritized",
            "priority_alpha": 0.9,
            "priority_beta": 0.6,
            "burn_in": 3,
            "length": 4,
            "stride": 2,
            **settings,
        },
    )

    def empty(config: SequenceReplayConfig, num_workers: int) -> SequenceReplay:
        return SequenceReplay(config, num_workers=num_workers, n_step=2, gamma=0.9, seed=5)

    return DemonstratedReplay(empty, config, 1, demonstrations=demonstrations, ratio=ratio, seed=8, scale=scale)


def test_demonstrations_from_a_data_set_match_those_from_a_file(shown: str, tmp_path: Path) -> None:
    with SetWriter(tmp_path / "set", Box(-np.inf, np.inf, (1,)), Discrete(2)) as written:
        own = load_demonstrations(shown)
        rows = {name: own.columns[name][:-1] for name in ("actions", "rewards", "terminateds", "truncateds")}
        written.add_episode({"obs": own.observations[""].astype(np.float32), **rows})
    batches = []
    for path in (shown, str(tmp_path / "set")):
        replay = replay_of(path, 1.0)
        replay.add(0, fragment_counting_from())
        batches.append(replay.sample(64, 0))
    for name, column in batches[0].items():
        np.testing.assert_array_equal(batches[1][name], column)


def fragment_counting_from(length: int = 20, first: int = 0) -> SampleBatch:
    no = np.zeros((length, 1), np.bool_)
    return SampleBatch(
        obs=first + np.arange(length + 1, dtype=np.float32).reshape(-1, 1, 1),
        actions=np.zeros((length, 1), np.int64),
        rewards=np.zeros((length, 1), np.float32),
        terminateds=no,
        truncateds=no,
        valid=~no,
        episode_starts=no,
        state=np.ones((length, 1, 6), np.float32),
    )


def are_shown(batch: Mapping[str, Any]) -> Any:
    return batch["indices"] < 0


def test_each_drawn_row_is_a_demonstration_with_the_given_probability(shown: str) -> None:
    replay = replay_of(shown, 0.25)
    replay.add(0, fragment_counting_from())
    batches = [replay.sample(32, 0) for _ in range(500)]
    counts = np.array([are_shown(batch).sum() for batch in batches])
    assert all(len(batch["indices"]) == len(batch["weights"]) == 32 for batch in batches)
    assert counts.sum() == pytest.approx(500 * 32 * 0.25, abs=4 * np.sqrt(500 * 32 * 0.25 * 0.75))
    assert counts.var() == pytest.approx(32 * 0.25 * 0.75, rel=0.25)  # each row is drawn independently
    assert replay.drawn_batches == 500


def test_several_minibatches_drawn_at_once_equal_those_drawn_one_by_one(shown: str) -> None:
    together, one_by_one = (replay_of(shown, 0.5, sampling="uniform") for _ in range(2))
    for replay in (together, one_by_one):
        replay.add(0, fragment_counting_from())
    found = together.sample(6, 0, 3)["indices"]
    assert found.tolist() == [index for _ in range(3) for index in one_by_one.sample(6, 0)["indices"].tolist()]


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_a_demonstration_ratio_of_0_draws_none_and_a_ratio_of_1_draws_nothing_else(shown: str, ratio: float) -> None:
    replay = replay_of(shown, ratio)
    replay.add(0, fragment_counting_from())
    assert set(are_shown(replay.sample(64, 0)).tolist()) == {bool(ratio)}


def test_every_demonstrated_step_after_the_burn_in_is_drawn_with_a_zero_initial_state(shown: str) -> None:
    replay = replay_of(shown, 1.0, sampling="uniform")
    replay.add(0, fragment_counting_from())
    batch = replay.sample(2000, 0)
    learned = batch["obs"][:, 3:7, 0][batch["valid"]]
    assert np.unique(learned).tolist() == [1000.0 + t for t in range(3, SHOWN_STEPS)]
    assert not batch["state"].any()
    ends = batch["valid"] & (batch["obs"][:, 3:7, 0] == 1000 + SHOWN_STEPS - 1)
    assert set(batch["rewards"][ends].tolist()) == {7.0}
    assert set(batch["discounts"][ends].tolist()) == {0.0}


def test_rewards_of_demonstrations_are_scaled_and_clipped_like_collected_rewards(shown: str) -> None:
    replay = replay_of(shown, 1.0, scale=RewardScale(0.5, clip=2.0))
    replay.add(0, fragment_counting_from())
    assert np.unique(replay.sample(500, 0)["rewards"]).tolist() == pytest.approx([0.0, 1.8, 2.0])


def test_priorities_are_updated_in_the_buffer_that_a_row_came_from(shown: str) -> None:
    replay = replay_of(shown, 0.5)
    replay.add(0, fragment_counting_from())
    batch = replay.sample(400, 0)
    indices = batch["indices"]
    own, demonstrated = indices[indices >= 0][0], indices[indices < 0][0]
    replay.update_priorities(indices, np.where((indices == own) | (indices == demonstrated), 1e6, 1e-9))
    again = replay.sample(400, 0)
    assert set(again["indices"].tolist()) == {own, demonstrated}
    assert again["weights"].min() == pytest.approx(1.0)


def test_demonstrations_are_never_overwritten(shown: str) -> None:
    replay = replay_of(shown, 0.5)
    for k in range(60):
        replay.add(0, fragment_counting_from(first=20 * k))
    batch = replay.sample(2000, 0)
    first = batch["obs"][:, 0, 0]
    assert first[~are_shown(batch)].min() > 20 * 60 - 502
    assert set(first[are_shown(batch)].tolist()) >= {1000.0 + t for t in range(0, SHOWN_STEPS, 2)}
    assert replay.stored_steps == 60 * 20


def test_a_resumed_replay_draws_the_same_rows_as_an_uninterrupted_one(shown: str) -> None:
    replay = replay_of(shown, 0.5)
    replay.add(0, fragment_counting_from())
    batch = replay.sample(8, 0)
    replay.update_priorities(batch["indices"], np.arange(8, dtype=np.float32))
    saved = pickle.loads(pickle.dumps(replay.state()))
    other = replay_of(shown, 0.5)
    other.load_state(saved)
    again = replay_of(shown, 0.5)  # its state was saved twice in a row, as if a run had stopped right after a resume
    again.load_state(pickle.loads(pickle.dumps(other.state())))
    for each in (replay, other, again):
        each.add(0, fragment_counting_from(first=20))
    expected = replay.sample(50, 0)
    for found in (other.sample(50, 0), again.sample(50, 0)):
        for name, column in expected.items():
            np.testing.assert_array_equal(found[name], column)


def test_the_error_for_missing_demonstrations_names_the_command_that_records_some() -> None:
    with pytest.raises(UsageError, match="rlrun demonstrate"):
        replay_of(None, 0.25).add(0, fragment_counting_from())
