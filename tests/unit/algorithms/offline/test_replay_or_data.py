"""One setting makes a replay algorithm learn from data, from an env, or from both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from torch import Tensor

from rlrun.algorithms.actor_q.sac import SAC, SACConfig
from rlrun.algorithms.actor_q.soft_networks import SoftNetworks
from rlrun.algorithms.offline.replay_or_data import ReplayOrData, within_data
from rlrun.algorithms.offline.rlpd import RLPD
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.input_config import DataSettings
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.flow.operators.data import AddData, DropDataPriorities
from rlrun.engine.flow.operators.minibatches import TrainedMinibatch
from rlrun.engine.flow.sources.items import StatefulSource
from rlrun.engine.learner.objective import Loss
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.training.training import Training


class Config(DataSettings, SACConfig):
    """Settings of SAC with data."""


class DataSAC(ReplayOrData, SAC):
    """SAC with data."""

    Config = Config


SETTINGS: dict[str, Any] = {
    "model": {"hiddens": [4]},
    "minibatch_size": 8,
    "learning_starts": 10,
    "compile": False,
    "sgd_steps_per_iteration": 5,
    "min_env_steps_per_iteration": 15,
    "normalize_observations": True,
}


@pytest.fixture
def data(tmp_path: Path) -> str:
    """A set of 30 steps of Pendulum's spaces."""
    rng, bound = np.random.default_rng(0), np.array([1, 1, 8], np.float32)
    with SetWriter(tmp_path / "data", Box(-bound, bound), Box(-2, 2, (1,))) as writer:
        obs, actions = rng.uniform(-1, 1, (31, 3)).astype(np.float32), rng.uniform(-2, 2, (30, 1)).astype(np.float32)
        ends = np.arange(30) == 29
        columns = {"rewards": rng.normal(size=30), "terminateds": ends & False, "truncateds": ends}
        writer.add_episode({"obs": obs, "actions": actions, **columns})
    return str(tmp_path / "data")


@pytest.mark.parametrize(
    ("share", "counts", "views"),
    [
        (1.0, (0, 10), {}),
        (0.5, (30, 20), {}),
        (None, (30, 20), {}),
        (0.5, (30, 20), {"obs": 2, "prev_actions": 1, "prev_rewards": 2}),
    ],
)
def test_the_share_of_recorded_data_determines_env_and_sgd_steps_and_a_resume_is_exact(
    data: str, tmp_path: Path, share: float | None, counts: tuple[int, int], views: dict[str, int]
) -> None:
    named = None if share is None else [{"path": data, "share": share}]
    settings = {**SETTINGS, "model": {"hiddens": [4], "views": views}}
    with Training("Pendulum-v1", DataSAC(input=named, **settings), seed=1) as training:
        training.step()
        saved = training.save(tmp_path / "saved")
        result = training.step()
        expected = training.running.trainee.learner.flat()
    assert (result["env_steps"], result["sgd_steps"]) == counts
    with Training.restore(saved, trained_by=DataSAC, trust=True) as resumed:
        resumed.step()
        np.testing.assert_array_equal(resumed.running.trainee.learner.flat(), expected)


REWARDS: list[Tensor] = []
"""Rewards [S, 1] in the minibatches of this file's RLPD."""


class ShownRLPD(RLPD):
    """RLPD whose minibatches' rewards are accessible to a test."""

    def critics_loss(self, outputs: SoftNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        REWARDS.append(batch["rewards"].clone())
        return super().critics_loss(outputs, batch, scheduled)


def test_rlpd_takes_half_of_each_minibatch_from_data_and_layer_normalizes_its_critics(data: str) -> None:
    settings = {**SETTINGS, "training_intensity": 2.0, "num_critics": 3}
    with Training("Pendulum-v1", ShownRLPD(input=[{"path": data, "share": 0.5}], **settings)) as training:
        REWARDS.clear()
        result = training.step()
        plan = [info.path for info in training.running.flow.describe()]
    assert (result["env_steps"], result["sgd_steps"]) == (15, 10)
    assert plan[-2:] == ["MergeFilters", "BroadcastWeights"]
    recorded = DataSet(Path(data)).file(0)["rewards"].astype(np.float32)
    is_recorded = [np.isin(rewards[:, 0].numpy(), recorded) for rewards in REWARDS]
    np.testing.assert_array_equal(is_recorded, [[False] * 4 + [True] * 4] * 10)
    assert (RLPD().config.model.critic_normalization, RLPD().config.model.normalization) == ("layer", None)


def test_recurrent_networks_are_refused_when_learning_from_single_transitions(data: str, wording) -> None:
    with wording.raised(UsageError, "config.model.core"):
        Training("Pendulum-v1", DataSAC(input=data, **{**SETTINGS, "model": {"core": "gru"}})).step()


def test_hindsight_relabeling_is_refused_when_learning_from_data_alone(data: str, wording) -> None:
    with wording.raised(UsageError, "config.replay.hindsight"):
        Training("Pendulum-v1", DataSAC(input=data, **{**SETTINGS, "replay": {"hindsight": {}}})).step()


class Sevens(StatefulSource[SampleBatch]):
    """Two rows of data."""

    def __next__(self) -> SampleBatch:
        return SampleBatch(obs=np.full((2, 1, 1), 7.0), indices=np.array([3, 4]))

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        return


def test_rows_from_data_follow_the_replayed_rows_and_do_not_update_replay_priorities() -> None:
    minibatch = SampleBatch(obs=np.zeros((3, 1, 1)), indices=np.array([5, 6, 7]))
    both = AddData(Sevens())(minibatch)
    assert both["obs"].ravel().tolist() == [0, 0, 0, 7, 7]
    trained = DropDataPriorities()(TrainedMinibatch(both["indices"], np.arange(5, dtype=np.float32)))
    assert (trained.indices.tolist(), trained.priorities.tolist()) == ([5, 6, 7], [0, 1, 2])
    assert not len(DropDataPriorities()(TrainedMinibatch(both["indices"], np.zeros(0, np.float32))).priorities)


def test_infinite_action_bounds_are_replaced_by_the_range_of_the_data(tmp_path: Path) -> None:
    space = Box(np.float32([-np.inf, -1]), np.float32([np.inf, np.inf]))
    paths = [str(tmp_path / name) for name in ("a", "b")]
    for path, scale in zip(paths, (1, 3), strict=True):
        with SetWriter(Path(path), Box(-1, 1, (1,)), space) as writer:
            actions = scale * np.array([[-2.0, 0.5], [1.0, 0.25]], np.float32)
            flags = {"terminateds": np.zeros(2, np.bool_), "truncateds": np.zeros(2, np.bool_)}
            writer.add_episode({"obs": np.zeros((3, 1)), "actions": actions, "rewards": np.zeros(2), **flags})
    found = within_data(space, [DataSet(Path(path)) for path in paths])
    assert isinstance(found, Box)
    assert (found.low.tolist(), found.high.tolist()) == ([-6, -1], [3, 1.5])
    learns = DataSAC(input=paths[1], model={"hiddens": [4]}, minibatch_size=4, sgd_steps_per_iteration=1, compile=False)
    with Training(None, learns) as training:
        training.step()
        policy = training.running.trainee.policy
    assert policy.action_space.to_env(np.float32([[-1, 1]])).tolist() == [[-6, 1.5]]
