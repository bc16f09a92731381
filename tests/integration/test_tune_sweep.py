"""Sweeps on real Ray Tune: the numbers, the files, the events, and trials that fail."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import ray

import rlrun
from rlrun.engine.kernels.library import why_no_library
from rlrun.engine.messages.errors import TrainingFailed, UsageError
from rlrun.experiments.cluster.ray_session import why_no_kernels_on_nodes
from rlrun.experiments.runs.events import RunEvent, RunFinished, RunStarted, RunWaiting, TrialEvent, TrialNote
from tests.results import all_numbers

TINY = {
    "train_batch_size": 64,
    "min_env_steps_per_iteration": 0,
    "minibatch_size": 32,
    "num_epochs": 1,
    "num_envs_per_worker": 4,
    "model": {"hiddens": [8]},
}
SWEEP = {
    "sweep": {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "seeds": 2,
        "stop": {"iteration": 3},
        "resources": {"cpus": 2},  # two trials run at once, and the other two reuse their actors
        "config": {**TINY, "lr": {"grid_search": [1e-3, 3e-4]}},
    }
}
BREAKS = '''
import os

import gymnasium
import numpy as np

class Breaks(gymnasium.Env):
    """Raises at a step, if it is told to; once, or until it is mended. Or ends its process at the first one."""
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, at=None, mended="", once=False, render_mode=None):
        self.at, self.mended, self.once, self.steps = at, mended, once, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.at == "death":
            os.kill(os.getpid(), 9)
        if self.steps == self.at and not os.path.exists(self.mended):
            if self.once:
                open(self.mended, "w").close()
            raise OverflowError("the world is too small")
        return self.np_random.random(1, np.float32), 1.0, False, self.steps % 10 == 0, {}
'''


@pytest.mark.usefixtures("running_ray")
def test_cluster_nodes_report_the_same_kernel_support_as_this_machine() -> None:
    reason = why_no_library()
    assert why_no_kernels_on_nodes() == (f"on node {ray.nodes()[0]['NodeManagerHostname']} {reason}" if reason else "")


@pytest.mark.usefixtures("running_ray")
def test_a_sweep_gives_the_same_numbers_when_repeated_and_in_the_ray_and_local_executors(tmp_path: Path) -> None:
    events: list[RunEvent] = []
    first = rlrun.run(SWEEP, runs_dir=tmp_path, watch=events.append)
    local, again = (rlrun.run(SWEEP, runs_dir=tmp_path, executor="local") for _ in range(2))

    names = ["000-lr=0.001-seed=0", "001-lr=0.001-seed=1", "002-lr=0.0003-seed=0", "003-lr=0.0003-seed=1"]
    assert [trial.name for trial in first] == names
    assert {trial.status for trial in (*first, *again, *local)} == {"TERMINATED"}
    assert [all_numbers(trial.results()) for trial in first] == [all_numbers(trial.results()) for trial in again]
    assert [all_numbers(trial.results()) for trial in first] == [all_numbers(trial.results()) for trial in local]
    assert len({str(all_numbers(trial.results())) for trial in first}) == 4

    assert {trial.directory.parent.name for trial in (*first, *again, *local)} == {"sweep", "sweep-2", "sweep-3"}
    assert all(trial.checkpoint == trial.directory / "checkpoints/iteration_000003" for trial in first)
    assert not (tmp_path / "sweep" / ".tune").exists()

    assert isinstance(events[0], RunStarted)
    assert (events[0].executor, events[0].uses_ray) == ("ray", True)
    assert events[-1] == RunFinished(tmp_path / "sweep", tuple(first), events[-1].seconds)  # type: ignore[union-attr]
    told = [event for event in events if isinstance(event, TrialEvent)]
    assert Counter((event.trial, event.status, event.result is not None) for event in told) == {
        key: count
        for name in names
        for key, count in {
            (name, "RUNNING", False): 1,
            (name, "RUNNING", True): 3,
            (name, "TERMINATED", False): 1,
        }.items()
    }
    for trial in first:
        assert [event.result for event in told if event.trial == trial.name and event.result] == trial.results()


@pytest.mark.usefixtures("running_ray")
@pytest.mark.parametrize(("executor", "deaths"), [("local", 0), ("ray", 1)])
def test_a_failed_trial_shows_the_users_traceback_and_the_remaining_trials_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: Any, deaths: int
) -> None:
    (tmp_path / "small_world.py").write_text(BREAKS)
    monkeypatch.syspath_prepend(tmp_path)
    env = {"id": "small_world:Breaks", "kwargs": {"at": {"grid_search": [9, None, *["death"] * deaths]}}}
    spec = {"algorithm": "ppo", "env": env, "stop": {"iteration": 2}, "config": TINY}
    events: list[RunEvent] = []
    failed, fine, *died = rlrun.run(
        {"breaks": spec}, runs_dir=tmp_path / "runs", executor=executor, watch=events.append
    )

    assert (failed.status, fine.status) == ("ERROR", "TERMINATED")
    assert fine.last_result["iteration"] == 2
    assert 'raise OverflowError("the world is too small")' in failed.error
    assert "small_world.py" in failed.error
    assert "Ray" not in failed.error
    assert [(trial.status, "its process died" in trial.error) for trial in died] == [("ERROR", True)] * deaths
    told = [event for event in events if isinstance(event, TrialEvent) and event.status == "ERROR"]
    assert sorted(event.trial for event in told) == [trial.name for trial in (failed, *died)]
    assert [event.error for event in told if event.trial == failed.name] == [failed.error]


@pytest.mark.usefixtures("running_ray")
@pytest.mark.parametrize("executor", ["local", pytest.param("ray", marks=pytest.mark.chaos)])
def test_a_failing_trial_is_restarted_as_often_as_the_spec_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: Any
) -> None:
    (tmp_path / f"flaky_world_{executor}.py").write_text(BREAKS)
    monkeypatch.syspath_prepend(tmp_path)
    env = {"id": f"flaky_world_{executor}:Breaks"}
    spec = {"algorithm": "ppo", "stop": {"iteration": 3}, "config": TINY, "checkpoint": {"every": 1}}
    breaks = {"at": 20, "mended": str(tmp_path / "mended"), "once": True}
    events: list[RunEvent] = []
    flaky = {**spec, "env": {**env, "kwargs": breaks}, "failure": {"max_restarts": 1}}
    (trial,) = rlrun.run({"flaky": flaky}, runs_dir=tmp_path / "runs", executor=executor, watch=events.append)
    assert (trial.status, trial.error, trial.last_result["iteration"]) == ("TERMINATED", "", 3)
    again = [event.text for event in events if isinstance(event, TrialNote) and "restarting" in event.text]
    assert len(again) == 1
    assert again[0].startswith("restarting (1 of 1): ")
    assert "the world is too small" in again[0]
    (whole,) = rlrun.run({"whole": {**spec, "env": env}}, runs_dir=tmp_path / "runs", executor="local")
    assert all_numbers(trial.results()) == all_numbers(whole.results())

    broken = {**spec, "env": {**env, "kwargs": {"at": 20}}, "failure": {"max_restarts": 1}}
    events.clear()
    with pytest.raises(TrainingFailed, match="the world is too small"):
        rlrun.run({"broken": broken}, runs_dir=tmp_path / "runs", executor=executor, watch=events.append)
    assert sum(isinstance(event, TrialNote) and "of 1)" in event.text for event in events) == 1


def test_failed_trials_are_rerun_only_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mended_world.py").write_text(BREAKS)
    monkeypatch.syspath_prepend(tmp_path)
    mended = tmp_path / "mended"
    env = {"id": "mended_world:Breaks", "kwargs": {"at": {"grid_search": [20, None]}, "mended": str(mended)}}
    spec = {"algorithm": "ppo", "env": env, "stop": {"iteration": 3}, "config": TINY, "checkpoint": {"every": 1}}
    failed, fine = rlrun.run({"breaks": spec}, runs_dir=tmp_path / "runs", executor="local")
    assert (failed.status, failed.last_result["iteration"]) == ("ERROR", 1)
    run = tmp_path / "runs/breaks"
    assert rlrun.resume(run) == [failed, fine]

    mended.touch()
    again, untouched = rlrun.resume(run, retry_failed=True, executor="local")
    assert untouched == fine
    assert (again.status, again.error, again.last_result["iteration"]) == ("TERMINATED", "", 3)


@pytest.mark.usefixtures("running_ray")
def test_a_trial_too_large_for_the_cluster_is_refused_at_once_or_after_waiting_for_nodes(
    tmp_path: Path, wording
) -> None:
    import ray

    spec = {"algorithm": "ppo", "env": "CartPole-v1", "stop": {"iteration": 1}, "config": {"num_workers": 99}}
    told: list[RunEvent] = []
    with wording.raised(UsageError, "000-seed=0", "num_workers"):
        rlrun.run({"greedy": spec}, runs_dir=tmp_path)  # this Ray has no autoscaler
    with pytest.raises(UsageError):
        rlrun.run({"greedy": spec}, runs_dir=tmp_path, wait_for_nodes_s=0.5, watch=told.append)
    assert [(event.trial, event.limit_s) for event in told if isinstance(event, RunWaiting)] == [("000-seed=0", 0.5)]
    groups = [group for group in ray.util.placement_group_table().values() if len(group["bundles"]) == 100]
    assert {group["state"] for group in groups} == {"REMOVED"}
    assert list(tmp_path.iterdir()) == []
