"""Minibatches of recorded data: shares, statistics, and the position of the draw."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlrun.algorithms.offline.bc import BC
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.flow.sources.data_minibatches import DataMinibatches
from rlrun.engine.messages.errors import CheckpointRefused, DataSetError, SpecError, UsageError
from rlrun.engine.training.training import Training

SPACES = Box(-np.inf, np.inf, (2,)), Discrete(2, start=1)


def write(folder: Path, seed: int, steps: int = 40, episodes: int = 1) -> str:
    """A set with one episode per file; the first number of each observation is the seed."""
    rng = np.random.default_rng(seed)
    with SetWriter(folder, *SPACES, episodes_per_file=1) as writer:
        for _ in range(episodes):
            obs = rng.normal(size=(steps + 1, 2)).astype(np.float32)
            obs[:, 0] = seed
            flags = np.arange(steps) == steps - 1
            columns = {"actions": rng.integers(1, 3, steps), "rewards": np.ones(steps)}
            writer.add_episode({"obs": obs, **columns, "terminateds": flags, "truncateds": flags})
    return str(folder)


def training(path: Any, **settings: Any) -> Training:
    settings = {"model": {"hiddens": [4]}, "minibatch_size": 8, "sgd_steps_per_iteration": 3, **settings}
    return Training(None, BC(input=path, compile=False, **settings), seed=3)


def source(started: Training) -> DataMinibatches:
    node = started.running.flow.node
    while node.inputs:
        (node,) = node.inputs
    drawn: DataMinibatches = node.source  # type: ignore[attr-defined]
    return drawn


@pytest.fixture
def data(tmp_path: Path) -> str:
    return write(tmp_path / "data", 5)


def test_data_sets_are_sampled_in_proportion_to_their_shares(tmp_path: Path) -> None:
    first, second = (write(tmp_path / name, seed) for name, seed in (("a", 1), ("b", 2)))
    with training([{"path": first, "share": 0.25}, {"path": second, "share": 0.75}], minibatch_size=400) as started:
        drawn = np.concatenate([next(source(started))["obs"][:, 0, 0] for _ in range(10)])
    assert abs((drawn == 1).mean() - 0.25) < 0.03
    assert set(drawn.tolist()) == {1, 2}


def test_actions_of_a_data_set_are_converted_to_the_policys_actions(data: str) -> None:
    with training(data) as started:
        assert {*next(source(started))["actions"].ravel().tolist()} == {0, 1}  # the env's actions are 1 and 2


def test_training_from_data_counts_sgd_steps_but_no_env_steps(data: str) -> None:
    with training(data) as started:
        results = [started.step(), started.step()]
    assert [(result["sgd_steps"], result["env_steps"]) for result in results] == [(3, 0), (6, 0)]


def test_a_resume_draws_the_same_minibatches_bit_for_bit(data: str, tmp_path: Path) -> None:
    with training(data, normalize_observations=True) as started:
        started.step()
        saved = started.save(tmp_path / "saved")
        started.step()
        expected = started.running.trainee.learner.flat()
    with Training.restore(saved, trust=True) as resumed:
        resumed.step()
        np.testing.assert_array_equal(resumed.running.trainee.learner.flat(), expected)


def test_observation_statistics_cover_all_rows_of_a_data_set_and_stay_fixed(data: str) -> None:
    with training(data, normalize_observations=True) as started:
        started.step()
        moments = started.running.trainee.filters.moments["observations/"]
        started.step()
        assert started.running.trainee.filters.moments["observations/"] is moments
    assert moments.count == 41
    assert moments.mean[0] == 5
    assert moments.squares[0] == 0


def test_a_resume_accepts_a_moved_data_set_and_refuses_a_changed_one_with_its_name(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.chdir(tmp_path)
    with training("data") as started:
        started.step()
        saved = started.save(tmp_path / "saved")
    (tmp_path / "elsewhere").mkdir()
    shutil.move("data", "elsewhere/data")
    monkeypatch.chdir(tmp_path / "elsewhere")
    with Training.restore(saved, trust=True) as resumed:
        resumed.step()
    shutil.rmtree("data")
    write(Path("data"), 6)
    with wording.raised(DataSetError, "data/000000"):
        Training.restore(saved, trust=True)


def test_a_checkpoint_that_names_a_data_set_is_refused_without_trust(data: str, tmp_path: Path, wording) -> None:
    with training(data) as started:
        saved = started.save(tmp_path / "saved")
    with wording.raised(CheckpointRefused, "config.input"):
        Training.restore(saved)


def test_a_resume_within_a_window_of_a_remote_data_set_continues_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    uri = f"file://{write(tmp_path / 'data', 5, steps=10, episodes=6)}"
    monkeypatch.setenv("RLRUN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RLRUN_CACHE_GB", "8e-6")  # space for two of the six files
    with training(uri) as started:
        started.step()
        saved = started.save(tmp_path / "saved")
        started.step()
        expected = started.running.trainee.learner.flat()
    assert len(list(tmp_path.glob("cache/datasets/*/*.arrow"))) <= 2
    with pytest.raises(CheckpointRefused, match=r"`config.input` reads files"):
        Training.restore(saved)
    monkeypatch.setenv("RLRUN_CACHE_GB", "1")  # the whole set would fit now
    with Training.restore(saved, trust=True) as resumed:
        resumed.step()
        np.testing.assert_array_equal(resumed.running.trainee.learner.flat(), expected)
    shutil.rmtree(tmp_path / "data")
    write(tmp_path / "data", 6, steps=10, episodes=6)
    with wording.raised(DataSetError, "data/000000") as refused:
        Training.restore(saved, trust=True)
    assert refused.value.exit_code == 5


def test_a_policy_acts_without_the_data_that_it_has_learned_from(data: str, tmp_path: Path, wording) -> None:
    with training(data) as started:
        started.step()
        saved = started.save(tmp_path / "saved")
    shutil.rmtree(data)
    with Training.restore(saved, trust=True, for_training=False) as restored:
        assert restored.act(np.zeros(2, np.float32)) in (1, 2)
        with wording.raised(UsageError):
            restored.evaluate(1)


def test_unbounded_actions_are_given_the_range_of_the_data_as_their_bounds(tmp_path: Path) -> None:
    low = np.array([-1.0, -np.inf], np.float32)
    with SetWriter(tmp_path / "data", Box(-1, 1, (1,)), Box(low, np.full(2, np.inf, np.float32))) as writer:
        actions = np.array([[0, -7], [3, 2]], np.float32)
        flags = {"terminateds": np.zeros(2, np.bool_), "truncateds": np.zeros(2, np.bool_)}
        writer.add_episode({"obs": np.zeros((3, 1), np.float32), "actions": actions, "rewards": np.zeros(2), **flags})
    with training(str(tmp_path / "data")) as started:
        space = started.description.spaces()["default"].action
        started.step()
    assert (space.low.tolist(), space.high.tolist()) == ([-1, -7], [3, 2])


def test_a_data_set_whose_spaces_differ_from_the_policys_is_refused(data: str) -> None:
    with (
        Training("CartPole-v1", BC(input=data, compile=False)) as started,
        pytest.raises(
            UsageError,
            match=r"the observations are Box\(-inf, inf, \(2,\), float32\), but the policy was",
        ),
    ):
        started.step()


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ([], "name at least one data set"),
        ([{"path": "a", "share": 0.7}, {"path": "b", "share": 0.7}], r"must sum to at most 1; they sum to 1\.4"),
        ([{"path": "a", "share": 0.7}], r"without an env, the shares under input must sum to 1, not 0\.7"),
    ],
)
def test_shares_that_do_not_make_up_a_minibatch_are_refused(named: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        BC(input=named)


def test_training_without_an_env_and_without_data_is_refused(wording) -> None:
    with wording.raised(UsageError):
        Training(None, BC())
    with wording.raised(UsageError):
        Training(None, BC(input="nowhere"))
