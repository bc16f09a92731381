"""Worlds with many agents, on rollout workers and learners in separate processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stub_workers import actor_pids

from rlrun.algorithms.dqn.apex import Apex
from rlrun.algorithms.dqn.dqn import DQN
from rlrun.algorithms.impala.impala import Impala
from rlrun.algorithms.ppo import PPO
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.algorithm_config import WorldSamplingSettings
from rlrun.engine.checkpoint.format import read_checkpoint
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.league.league_settings import LeagueSettings, SeatSettings
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.training import Training
from tests.results import numbers

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"model": {"hiddens": [8]}, "compile": False}
ON_POLICY = {**SMALL, "train_batch_size": 300, "minibatch_size": 64, "num_epochs": 1}
OFF_POLICY = {**SMALL, "learning_starts": 20, "minibatch_size": 16}
LEARNERS = """
import os
import ray
from rlrun.engine.algorithm_config import WorldSamplingSettings
from rlrun.algorithms.ppo import PPO
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.training import Training
from rlrun.engine.envs.env_config import EnvConfig

settings = {"num_learners": 1, "torch_threads": os.cpu_count(), "train_batch_size": 64, "compile": False}
policies = Policies(
    {policy: PPO(PPO.Config.parse(settings)) for policy in "ab"},
    WorldSamplingSettings(num_envs_per_worker=2, min_env_steps_per_iteration=100),
    mapping={"pole_0": "a", "*": "b"},
)
with Training(EnvConfig(world="rlrun.toys:CartPoles"), policies) as training:
    result = training.step()
print("sgd_steps", result["policies/a/sgd_steps"] > 0, result["policies/b/sgd_steps"] > 0)
print("ray", ray.is_initialized())
"""


def foraging(clock: str | None = None, note: Path | None = None) -> EnvConfig:
    kwargs = {} if note is None else {"note": str(note)}
    return EnvConfig.parse({"world": "strange_envs:ForagingThatKillsOnce", "kwargs": kwargs, "clock": clock})


def policies_of(foragers: Algorithm[Any], hunters: Algorithm[Any], train: tuple[str, ...] = ()) -> Policies:
    sampling = WorldSamplingSettings(num_workers=2, num_envs_per_worker=2, min_env_steps_per_iteration=100)
    mapping = {"forager_*": "foragers", "*": "hunters"}
    return Policies({"foragers": foragers, "hunters": hunters}, sampling, mapping=mapping, train=train)


def algorithm_with(algorithm: type[Algorithm[Any]], settings: dict[str, Any], **more: Any) -> Algorithm[Any]:
    return algorithm(algorithm.Config.parse({**settings, **more}))


def recurrent_ppo_beside_dqn() -> Policies:
    ppo = algorithm_with(PPO, ON_POLICY, normalize_observations=True, model={"hiddens": [8], "core": "lstm"}, seq_len=4)
    return policies_of(ppo, algorithm_with(DQN, OFF_POLICY))


@pytest.mark.usefixtures("running_ray")
@pytest.mark.parametrize("clock", ["parallel", pytest.param("per_agent", marks=pytest.mark.regress)])
def test_workers_resume_bit_for_bit_mid_episode_and_after_one_dies_mid_fragment(clock: str, tmp_path: Path) -> None:
    with Training(foraging(clock), recurrent_ppo_beside_dqn(), seed=4) as training:
        training.step()
        training.save(tmp_path / "checkpoint")
        workers = training.running.workers.state()["workers"]
        expected = [numbers(training.step()) for _ in range(3)]
    assert all(world["length"] > 0 for own in workers for world in own["worker"]["slots"]["worlds"])
    assert expected[0]["policies/foragers/episodes"] > expected[0]["episodes"] > 0  # agents also die within episodes
    with Training(foraging(clock, tmp_path / "died"), recurrent_ppo_beside_dqn(), seed=4) as training:
        training.load(read_checkpoint(tmp_path / "checkpoint"))
        assert training.running.env_slots_restarted == 0
        found = [numbers(training.step()) for _ in range(3)]
        assert training.running.workers.lost_nothing
    assert [row.pop("worker_restarts") for row in found][-1] == 1
    assert [row.pop("worker_restarts") for row in expected][-1] == 0
    assert found == expected


@pytest.mark.usefixtures("running_ray")
def test_asynchronous_policies_keep_learning_when_a_worker_dies(tmp_path: Path) -> None:
    policies = policies_of(algorithm_with(Impala, {**SMALL, "train_batch_size": 200}), algorithm_with(Apex, OFF_POLICY))
    with Training(foraging(note=tmp_path / "died"), policies, seed=1) as training:
        died = training.step()
        while not died["worker_restarts"]:
            died = training.step()
        counts = [f"policies/{policy}/sgd_steps" for policy in policies.algorithms]
        result = training.step()
        while any(result[count] == died[count] for count in counts):
            result = training.step()
        assert all(any(metric.matches(name) for metric in training.description.metrics()) for name in result)
    assert result["worker_restarts"] == 1


@pytest.mark.chaos
@pytest.mark.usefixtures("running_ray")
def test_a_league_on_two_workers_resumes_bit_for_bit_even_if_one_worker_is_killed(tmp_path: Path) -> None:
    sampling = WorldSamplingSettings(
        num_workers=2, num_envs_per_worker=3, rollout_fragment_length=13, min_env_steps_per_iteration=100
    )
    policies = Policies(
        {"main": algorithm_with(PPO, {**ON_POLICY, "train_batch_size": 96})},
        sampling,
        mapping="rlrun.plugin:alternate",
        seats={"opponent": SeatSettings(plays_against="main", scripted={"rlrun.toys:RandomLegal": 0.2})},
        league=LeagueSettings(snapshot_every=1, pool=2, rating_episodes=2),
    )
    game = EnvConfig(world="rlrun.toys:TicTacToe")
    with Training(game, policies, seed=3) as training:
        for _ in range(2):
            training.step()
        training.save(tmp_path / "checkpoint")
        expected = [numbers(training.step()) for _ in range(2)]
    others = set(actor_pids())
    with Training(game, policies, seed=3) as training:
        training.load(read_checkpoint(tmp_path / "checkpoint"))
        found = [numbers(training.step())]
        os.kill(min(set(actor_pids()) - others), signal.SIGKILL)
        found.append(numbers(training.step()))
        assert training.running.workers.lost_nothing
    assert [row.pop("worker_restarts") for row in found] == [0, 1]
    assert [row.pop("worker_restarts") for row in expected] == [0, 0]
    assert found == expected


@pytest.mark.regress
def test_ray_has_room_for_every_policys_remote_learner_and_shuts_down_after_the_last_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEARNERS],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stdout.splitlines() if "(raylet)" not in line]  # Ray may report learners that ended
    assert told == ["sgd_steps True True", "ray False"]
