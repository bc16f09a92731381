from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from stub_workers import actor_pids, with_loaded_modules

from rlrun import PPO, Training
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.make import spaces_of
from rlrun.engine.envs.vector_env import EnvError
from rlrun.engine.flow.policy_workers import PolicyWorkers
from rlrun.engine.messages.errors import TrainingFailed
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.actor_critic import ActorCriticPolicy
from rlrun.engine.policy.weights import Weights
from rlrun.engine.rollout.rewards import RewardSettings
from rlrun.engine.rollout.rollout import DEFAULT_POLICY
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig
from rlrun.engine.rollout.worker_set import WorkerSet
from rlrun.experiments.spec.entry import check_entry
from rlrun.experiments.trial.trial_directory import TrialDirectory
from rlrun.experiments.trial.trial_loop import TrialLoop
from tests.policies import plain_policy
from tests.results import all_numbers

pytestmark = pytest.mark.usefixtures("running_ray")

SMALL = {
    "num_workers": 2,
    "train_batch_size": 64,
    "min_env_steps_per_iteration": 0,
    "minibatch_size": 32,
    "num_epochs": 2,
    "num_envs_per_worker": 4,
    "model": {"hiddens": [8]},
    "normalize_observations": True,
}
WORLDS = "rlrun.toys"


def iterations(training: Training, number: int) -> list[dict[str, Any]]:
    """Returns the results of a few iterations, without timing."""
    results = [training.step() for _ in range(number)]
    return all_numbers(results)


def test_a_worker_with_dense_networks_does_not_import_torch() -> None:
    env = EnvConfig(id="CartPole-v1")
    policy = plain_policy(ActorCriticPolicy, *spaces_of(env), ModelConfig(hiddens=(8,)), seed=1)
    config = WorkerConfig(
        env=env,
        num_envs=2,
        fragment_length=8,
        seed=0,
        behaviors={DEFAULT_POLICY: policy.behavior()},
        rewards={DEFAULT_POLICY: RewardSettings(0.9)},
    )
    workers = WorkerSet(config, 1)
    flow = PolicyWorkers(workers, DEFAULT_POLICY).rollouts(with_loaded_modules)
    workers.started.order(Orders({DEFAULT_POLICY: Weights(0, policy.parameters.gather(policy.module).numpy())}))
    (batch,) = flow.take(1)
    workers.close()
    assert batch["modules"].tolist() == ["gymnasium"]
    assert batch["rewards"].shape == (8, 2)


def test_a_run_with_memory_curiosity_and_a_constraint_resumes_bit_for_bit(tmp_path: Path) -> None:
    env = {"id": "rlrun.toys:TwoLanes", "columns": ["cost"]}
    streams = {"curiosity": {"hiddens": [8], "features": 4}, "constraint": {"column": "cost", "limit": 0.5}}
    memory = {"model": {"hiddens": [8], "core": "lstm"}, "seq_len": 4}
    with Training(env, PPO(**{**SMALL, **memory, **streams}), seed=4) as training:
        iterations(training, 2)
        training.save(tmp_path / "checkpoint")
        expected = iterations(training, 2)
    with Training.restore(tmp_path / "checkpoint") as restored:
        assert iterations(restored, 2) == expected
    assert [row["policy_lag_max"] for row in expected] == [0, 0]  # workers act with the weights of the last update
    assert expected[-1]["intrinsic_reward_mean"] > 0
    assert expected[-1]["episode_columns/cost_mean"] > 0


def test_workers_receive_an_env_class_that_cannot_be_imported_by_name() -> None:
    class Own(CartPoleEnv):  # type: ignore[misc]  # gymnasium is not type-checked
        def step(self, action: Any) -> Any:
            return np.float32(self.state), 0.0, False, False, {}  # never ends, so every row is a step

    with Training(Own, PPO(**{**SMALL, "num_workers": 1}), seed=4) as training:
        assert training.step()["env_steps"] == 64


@pytest.mark.chaos
def test_a_restored_run_continues_bit_for_bit_even_if_workers_are_killed_between_rounds(tmp_path: Path) -> None:
    with Training("CartPole-v1", PPO(**SMALL), seed=4) as training:
        iterations(training, 2)
        training.save(tmp_path / "checkpoint")
        expected = iterations(training, 3)
    others = set(actor_pids())
    with Training.restore(tmp_path / "checkpoint") as restored:
        os.kill(max(set(actor_pids()) - others), signal.SIGKILL)  # a restored worker that has made no fragment yet
        found = iterations(restored, 1)
        os.kill(min(set(actor_pids()) - others), signal.SIGKILL)
        found += iterations(restored, 2)
        assert restored.running.workers.lost_nothing
    assert [row.pop("worker_restarts") for row in found] == [1, 2, 2]
    assert [row.pop("worker_restarts") for row in expected] == [0] * 3
    assert found == expected


def test_a_worker_that_dies_mid_fragment_does_not_change_the_results(tmp_path: Path) -> None:
    note = tmp_path / "died"
    settings = {**SMALL, "model": {"hiddens": [8], "core": "lstm"}, "seq_len": 4, "normalize_rewards": True}
    runs = []
    for _ in range(2):  # the worker dies only in the first run
        with Training(
            {"id": "strange_envs:DiesOnce", "kwargs": {"note": str(note)}}, PPO(**settings), seed=2
        ) as training:
            runs.append(iterations(training, 8))
            assert training.running.workers.lost_nothing
    assert [[row.pop("worker_restarts") for row in rows][-1] for rows in runs] == [1, 0]
    assert runs[0] == runs[1]


@pytest.mark.chaos
def test_a_run_is_recorded_as_inexact_if_a_lost_workers_episodes_cannot_be_replayed(
    tmp_path: Path,
) -> None:
    kwargs = {"note": str(tmp_path / "died"), "is_seeded": False}
    entry = {
        "algorithm": "ppo",
        "env": {"id": "strange_envs:DiesOnce", "kwargs": kwargs},
        "stop": {"iteration": 6},
        "config": {**SMALL, "compile": False},
    }
    experiment, mistakes = check_entry("dies", entry)
    assert experiment is not None, mistakes
    (trial,) = experiment.trials()
    with TrialLoop(trial, tmp_path / "trial") as loop:
        while not loop.done:
            loop.step()
        assert not loop.training.running.workers.lost_nothing
    record = TrialDirectory(tmp_path / "trial").read_record()
    assert record is not None
    assert record.exact_resume is False
    assert loop.last_result["worker_restarts"] == 1


def test_an_error_in_a_workers_env_is_reported_with_its_traceback_and_location() -> None:
    env = {"id": f"{WORLDS}:Crashing", "kwargs": {"crash_at": 20, "crash_worker": 2}}
    with Training(env, PPO(**SMALL)) as training:
        with pytest.raises(EnvError) as caught:
            iterations(training, 5)
        assert training.running.workers.worker_restarts == 0
    message = str(caught.value)
    assert "worker 2, env 0, episode 0 with seed" in message
    assert "known_optimum.py" in message
    assert "ray" not in message.replace("Array", "").lower()


def test_a_worker_whose_env_hangs_repeatedly_times_out_and_fails_the_training() -> None:
    env = {"id": f"{WORLDS}:Hanging", "kwargs": {"hang_at": 20, "seconds": 600.0, "hang_worker": 1}}
    with (
        Training(
            env, PPO(**{**SMALL, "num_workers": 1, "worker_timeout_s": 2.0, "max_worker_restarts": 1})
        ) as training,
        pytest.raises(
            TrainingFailed,
            match=r"did not answer within 2 s \(worker_timeout_s\), and max_worker_restarts \(1\) is exhausted",
        ),
    ):
        iterations(training, 5)
