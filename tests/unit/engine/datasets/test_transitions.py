"""Steps, transitions and sequences of a data set match its episodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from hypothesis import given, settings
from hypothesis import strategies as st

from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.transitions import Sequences, Steps, Transitions, returns_to_go
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.functional.reward_scale import RewardScale

Ending = Literal["terminated", "truncated", "both", "cut"]


def written(folder: Path, episodes: Sequence[tuple[int, Ending]], rows_per_file: int = 100, sign: int = 1) -> DataSet:
    """A set in which the observation of step t of episode e is 100 e + t, its reward 10 e + t and its action t % 3.

    Rewards have the given sign.
    """
    with SetWriter(folder, Box(0, 1e6, (1,)), Discrete(3), rows_per_file=rows_per_file) as writer:
        for number, (length, ending) in enumerate(episodes):
            last = np.arange(length) == length - 1
            writer.add_episode(
                {
                    "obs": (100.0 * number + np.arange(length + 1, dtype=np.float32))[:, None],
                    "actions": np.arange(length) % 3,
                    "rewards": sign * (10.0 * number + np.arange(length)),
                    "terminateds": last & (ending in ("terminated", "both")),
                    "truncateds": last & (ending in ("truncated", "both")),
                }
            )
    return DataSet(folder)


def test_the_next_observation_of_a_step_belongs_to_the_same_episode(tmp_path: Path) -> None:
    data = written(tmp_path / "set", [(2, "terminated"), (1, "truncated"), (3, "cut")])
    found = Transitions(data, gamma=0.5).gather(np.arange(6))
    assert found["obs"][:, 0, 0].tolist() == [0, 1, 100, 200, 201, 202]
    assert found["next_obs"][:, 0, 0].tolist() == [1, 2, 101, 201, 202, 203]
    assert found["rewards"][:, 0].tolist() == [0, 1, 10, 20, 21, 22]
    assert found["actions"][:, 0].tolist() == [0, 1, 0, 0, 1, 2]


def test_next_actions_are_those_at_the_next_observations_and_are_invalid_at_episode_ends(tmp_path: Path) -> None:
    data = written(tmp_path / "set", [(3, "terminated"), (2, "truncated")])
    found = Transitions(data, gamma=0.5, further=("next_actions", "returns")).gather(np.arange(5))
    assert found["next_valid"][:, 0].tolist() == [True, True, False, True, False]
    assert found["next_actions"][:, 0][found["next_valid"][:, 0]].tolist() == [1, 2, 1]
    assert found["returns"][:, 0].tolist() == [1.0, 2.0, 2.0, 10 + 5.5, 11.0]


@pytest.mark.parametrize("ending", ["truncated", "cut"])
def test_returns_of_unterminated_episodes_with_negative_rewards_cause_a_warning(
    tmp_path: Path, ending: Ending, wording
) -> None:
    data = written(tmp_path / "costly", [(3, "terminated"), (2, ending)], sign=-1)
    with wording.warned(UserWarning):
        Transitions(data, gamma=0.5, further=("returns",)).gather(np.arange(5))


def test_there_is_no_warning_about_returns_if_rewards_are_positive_or_episodes_terminate(tmp_path: Path) -> None:
    ended = written(tmp_path / "ended", [(3, "terminated"), (2, "both")], sign=-1)
    positive = written(tmp_path / "positive", [(3, "truncated"), (2, "cut")])
    for data in (ended, positive):  # a warning would be an error in tests
        Transitions(data, gamma=0.5, further=("returns",)).gather(np.arange(5))
    costly = written(tmp_path / "costly", [(3, "truncated")], sign=-1)
    Transitions(costly, gamma=0.5, n_step=None).gather(np.arange(3))  # these returns bootstrap, so no warning either


def test_truncated_and_cut_episodes_bootstrap_and_terminated_ones_do_not_even_if_also_truncated(tmp_path: Path) -> None:
    data = written(tmp_path / "set", [(1, "terminated"), (1, "truncated"), (1, "both"), (1, "cut")])
    assert Transitions(data, gamma=0.5).gather(np.arange(4))["discounts"][:, 0].tolist() == [0, 0.5, 0, 0.5]


def test_a_return_sums_rewards_to_the_episode_end_and_bootstraps_from_the_final_observation(tmp_path: Path) -> None:
    data = written(tmp_path / "set", [(3, "truncated"), (2, "terminated")])
    found = Transitions(data, gamma=0.5, n_step=None).gather(np.arange(5))
    assert found["rewards"][:, 0].tolist() == [1.0, 2.0, 2.0, 10 + 5.5, 11.0]
    assert found["discounts"][:, 0].tolist() == [0.125, 0.25, 0.5, 0, 0]
    assert found["next_obs"][:, 0, 0].tolist() == [3, 3, 3, 102, 102]


def test_rewards_are_scaled_and_clipped_before_they_are_summed(tmp_path: Path) -> None:
    data, clipped, both = written(tmp_path / "set", [(3, "terminated")]), RewardScale(clip=1.0), RewardScale(0.5, 0.75)
    assert Transitions(data, gamma=1.0, n_step=3, scale=clipped).gather(np.arange(3))["rewards"][0, 0] == 2
    assert Transitions(data, gamma=1.0, scale=both).gather(np.arange(3))["rewards"].tolist() == [[0], [0.5], [0.75]]
    assert returns_to_go(data, 1.0, clipped).tolist() == [2, 2, 1, 0]
    assert returns_to_go(data, 1.0, both).tolist() == [1.25, 1.25, 0.75, 0]


@settings(max_examples=15)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    n_step=st.integers(1, 5),
    rows_per_file=st.integers(1, 9),
    ending=st.sampled_from(["terminated", "truncated", "both", "cut"]),
)
def test_n_step_transitions_match_a_loop_over_episodes(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], n_step: int, rows_per_file: int, ending: Ending
) -> None:
    data = written(tmp_path_factory.mktemp("data") / "set", [(n, ending) for n in lengths], max(rows_per_file, 8))
    found = Transitions(data, gamma=0.5, n_step=n_step).gather(np.arange(data.num_steps))
    expected = []
    for episode, length in enumerate(lengths):
        for t in range(length):
            steps = min(n_step, length - t)
            total = sum(0.5**j * (10 * episode + t + j) for j in range(steps))
            is_terminal = ending in ("terminated", "both") and t + steps == length
            expected.append([total, 0 if is_terminal else 0.5**steps, 100 * episode + t + steps])
    columns = [found["rewards"][:, 0], found["discounts"][:, 0], found["next_obs"][:, 0, 0]]
    np.testing.assert_array_equal(np.stack(columns, 1), np.array(expected, np.float32))


def test_sequences_start_with_their_episodes_and_cover_each_step_once(tmp_path: Path) -> None:
    data = written(tmp_path / "set", [(5, "terminated"), (2, "truncated")])
    sequences = Sequences(data, length=3)
    found = sequences.gather(np.arange(len(sequences)))
    assert found["obs"][..., 0].tolist() == [[0, 1, 2], [3, 4, 0], [100, 101, 0]]
    assert found["valid"].tolist() == [[True] * 3, [True, True, False], [True, True, False]]
    assert found["episode_starts"].tolist() == [[True, False, False], [False] * 3, [True, False, False]]
    assert found["episode_steps"].tolist() == [[0, 1, 2], [3, 4, 0], [0, 1, 0]]
    assert found["terminateds"].tolist() == [[False] * 3, [False, True, False], [False] * 3]


def test_the_burn_in_precedes_a_sequence_and_is_not_used_for_learning(tmp_path: Path) -> None:
    data = written(tmp_path / "set", [(4, "terminated")])
    found = Sequences(data, length=2, burn_in=1).gather(np.arange(2))
    assert found["obs"][..., 0].tolist() == [[0, 0, 1], [1, 2, 3]]
    assert found["valid"].tolist() == [[False, True, True]] * 2
    assert found["episode_starts"].tolist() == [[False, True, False], [False] * 3]


def test_sequences_with_a_stride_of_1_begin_at_every_step(tmp_path: Path) -> None:
    data = written(tmp_path / "set", [(3, "terminated"), (1, "terminated")])
    sequences = Sequences(data, length=2, stride=1)
    found = sequences.gather(np.arange(len(sequences)))
    assert found["obs"][..., 0].tolist() == [[0, 1], [1, 2], [2, 0], [100, 0]]


def test_single_steps_are_read_without_next_observations_or_rewards(tmp_path: Path) -> None:
    data = written(tmp_path / "set", [(2, "terminated"), (2, "cut")])
    found = Steps(data).gather(np.array([3, 0]))
    assert sorted(found) == ["actions", "obs", "valid"]
    assert found["obs"][..., 0].tolist() == [[101], [0]]
    assert found["valid"].all()
