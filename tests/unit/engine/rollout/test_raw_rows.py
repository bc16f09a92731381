"""Raw rows of workers: the env's own values and actions, whatever the learner gets."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.layout import LOGP, LOGP_FORM
from rlrun.engine.datasets.writer import SetWriter
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.make import make_env, spaces_of
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.rewards import RewardSettings
from rlrun.engine.rollout.rollout_worker import RolloutWorker
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig
from tests.policies import plain_policy

ENVS = {
    "discrete": EnvConfig(id="CartPole-v1", max_episode_steps=25),
    "scaled": EnvConfig(id="Pendulum-v1", max_episode_steps=30),
}


def worker_of(env: EnvConfig, *, records: bool = True) -> RolloutWorker:
    spaces = spaces_of(env)
    policy = plain_policy(ActorCriticPolicy, *spaces, ModelConfig(hiddens=(8,)), normalize_observations=True, seed=1)
    config = WorkerConfig(
        env=env,
        num_envs=3,
        fragment_length=17,
        seed=7,
        behaviors={"default": policy.behavior()},
        rewards={"default": RewardSettings(0.9, RewardScale(2.0, clip=0.5))},
        records=records,
    )
    worker = RolloutWorker(config)
    worker.follow(Orders({"default": Weights(4, policy.parameters.gather(policy.module).numpy())}))
    return worker


def write(folder: Path, worker: RolloutWorker, fragments: int) -> DataSet:
    spaces = spaces_of(worker.config.env)
    with SetWriter(folder, *spaces, further={LOGP: LOGP_FORM}) as writer:
        for _ in range(fragments):
            raw = worker.sample().raw["default"]
            for slot, rows, agent, begins in raw.streams():
                writer.add(str(slot), rows, agent=agent, begins=begins)
    return DataSet(folder)


@pytest.mark.parametrize("env", ENVS)
def test_replaying_the_recorded_seeds_and_actions_reproduces_the_episodes(tmp_path: Path, env: str) -> None:
    worker = worker_of(ENVS[env])
    found = write(tmp_path / "set", worker, fragments=8)
    world = make_env(ENVS[env], seed=0)
    starts, lengths = found.episodes
    assert len(starts) > 8
    ends = []
    for start, length in zip(starts, lengths, strict=True):
        rows = found.rows(np.arange(start, start + length + 1))
        observation, _ = world.reset(seed=int(rows["seed"][0]))
        for row in range(length):
            np.testing.assert_allclose(rows["obs"][row], observation, rtol=1e-5, atol=1e-5)
            observation, reward, terminated, truncated, _ = world.step(rows["actions"][row])
            assert rows["rewards"][row] == pytest.approx(float(reward), rel=1e-5, abs=1e-5)
            ends.append((terminated, truncated) == (rows["terminateds"][row], rows["truncateds"][row]))
        np.testing.assert_allclose(rows["obs"][length], observation, rtol=1e-5, atol=1e-5)
    assert all(ends)
    world.close()


def test_recording_raw_rows_does_not_change_a_single_bit_of_the_batch() -> None:
    plain, recording = worker_of(ENVS["scaled"], records=False), worker_of(ENVS["scaled"])
    for _ in range(3):
        expected, found = plain.sample(), recording.sample()
        assert not expected.raw
        for name, column in expected.batches["default"].items():
            np.testing.assert_array_equal(found.batches["default"][name], column, err_msg=name)


def test_raw_log_probabilities_are_those_of_env_actions_and_not_of_scaled_actions() -> None:
    rollout = worker_of(ENVS["scaled"]).sample()
    batch, columns = rollout.batches["default"], rollout.raw["default"].columns
    inside = (np.abs(columns["actions"][..., 0]) < 2) & batch["valid"]
    assert 0 < inside.sum() < inside.size
    np.testing.assert_allclose(columns["logp"][inside], batch["logp"][inside] - np.log(2), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(columns["actions"][inside], 2 * batch["actions"][inside], rtol=1e-6)


def test_a_worker_and_writer_restored_from_their_states_write_the_same_files_as_the_originals(tmp_path: Path) -> None:
    worker = worker_of(ENVS["discrete"])
    spaces = spaces_of(ENVS["discrete"])

    def go_on(writer: SetWriter, own: RolloutWorker, fragments: int) -> None:
        for _ in range(fragments):
            raw = own.sample().raw["default"]
            for slot, rows, agent, begins in raw.streams():
                writer.add(str(slot), rows, agent=agent, begins=begins)

    written = SetWriter(tmp_path / "set", *spaces, further={LOGP: LOGP_FORM}, episodes_per_file=2)
    go_on(written, worker, 3)
    saved: Any = pickle.loads(pickle.dumps((worker.state(), written.state())))
    go_on(written, worker, 4)
    written.close()
    expected = {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()}
    again = worker_of(ENVS["discrete"])
    assert again.load_state(saved[0]) == 0
    resumed = SetWriter(tmp_path / "set", *spaces, further={LOGP: LOGP_FORM}, episodes_per_file=2)
    resumed.load_state(saved[1])
    go_on(resumed, again, 4)
    resumed.close()
    assert {path.name: path.read_bytes() for path in (tmp_path / "set").iterdir()} == expected
    assert len(expected) > 4
