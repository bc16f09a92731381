"""`rlrun profile` on remote workers, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from stub_workers import descendants

from rlrun.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
SPEC = """
tiny:
  algorithm: {algorithm}
  env: {env}
  stop: {{iteration: 3}}
  config: {{num_workers: 2, num_envs_per_worker: 4, train_batch_size: 400,
            min_env_steps_per_iteration: 0, model: {{hiddens: [8]}}, compile: false}}
"""
WORLD = """
import os
from pathlib import Path

from gymnasium.envs.classic_control.cartpole import CartPoleEnv


class Counted(CartPoleEnv):
    '''Leaves a file named after its process behind its 1,000th step.'''

    steps = 0

    def step(self, action):
        self.steps += 1
        if self.steps == 1000:
            Path(__file__).with_name(f"{os.getpid()}.pid").touch()
        return super().step(action)
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(SPEC.format(algorithm="ppo", env="CartPole-v1"))
    return tmp_path / "tiny.yaml"


@pytest.fixture
def sigint_reaches_children() -> Iterator[None]:
    """Lets child processes receive SIGINT, even if `nohup` or `&` makes this process ignore it.

    Children ignore the signals that their parent ignores, but not those that it handles.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("running_ray")
@pytest.mark.parametrize("algorithm", ["ppo", pytest.param("a3c", marks=pytest.mark.regress)])
def test_profile_shows_the_phases_and_transfer_times_of_remote_workers(spec: Path, algorithm: str) -> None:
    spec.write_text(SPEC.format(algorithm=algorithm, env="CartPole-v1"))
    trace = spec.parent / "trace.json"
    for seconds in (0.5, 5, 50, 500):  # until the table has both workers: a3c does not wait for a particular worker
        done = CliRunner().invoke(
            cli,
            ["profile", "-f", str(spec), "--seconds", str(seconds), "--json", "--trace", str(trace)],
            catch_exceptions=False,
        )
        assert done.exit_code == 0, done.stderr
        data = json.loads(done.stdout)
        if len(data["workers"]) == 2:
            break
    assert [worker["worker"] for worker in data["workers"]] == [1, 2]
    on_workers = ["env_step", "inference", "recording", "postprocess", *(["sgd"] if algorithm == "a3c" else [])]
    for worker in data["workers"]:
        assert list(worker["phases"]) == on_workers
        assert min(worker["phases"].values()) > 0
        assert worker["fragments"] >= 1
        assert worker["wait_s"] >= 0
        assert worker["transfer_s"] > 0
        assert worker["queued_s"] >= 0
        assert sum(worker["phases"].values()) + worker["wait_s"] <= data["seconds"]
    assert data["learner"]["sgd_s"] > 0
    assert data["waiting_s"] + sum(operator["seconds"] for operator in data["operators"]) <= data["seconds"]
    if algorithm == "ppo":
        assert data["env_steps"] == sum(worker["env_steps"] for worker in data["workers"])
        assert (data["learner_wait_share"] > 0, data["policy_lag_max"]) == (True, 0)
    events = json.loads(trace.read_text())["traceEvents"]
    fragments = [event for event in events if event["name"] == "fragment"]
    assert len(fragments) == sum(worker["fragments"] for worker in data["workers"])
    assert min(event["ts"] for event in fragments) >= 0
    summed = sum(event["dur"] for event in fragments) / 1e6
    assert summed == pytest.approx(sum(sum(worker["phases"].values()) for worker in data["workers"]), abs=1e-4)


@pytest.mark.usefixtures("sigint_reaches_children")
def test_ctrl_c_prints_the_profile_collected_so_far_and_leaves_no_process_running(
    spec: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = tmp_path_factory.mktemp("world")
    (world / "counted.py").write_text(WORLD)
    spec.write_text(SPEC.format(algorithm="ppo", env="counted:Counted"))
    words = ["profile", "-f", str(spec), "--seconds", "300", "--set", "config.num_workers=1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rlrun", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT | {"PYTHONPATH": f"{ROOT}{os.pathsep}{world}"},
        start_new_session=True,
    )
    assert process.stderr is not None
    with process:
        told = iter(process.stderr.readline, "measuring for 300 s\n")
        assert list(told)[-1:] == ["starting and, if necessary, compiling (not measured)\n"]
        while not list(world.glob("*.pid")):  # until the worker has delivered
            assert process.poll() is None
            time.sleep(0.05)
        children = descendants(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # like Ctrl-C in a terminal
        stdout, stderr = process.communicate(timeout=800)
    assert process.returncode == 130, stderr
    assert "Interrupted: " in stderr
    assert "worker 1 " in stdout
    assert "\npolicy lag: 0 " in stdout
    assert "\nremedy: " in stdout.partition("\npolicy lag: 0 ")[2]
    assert children
    deadline = time.monotonic() + 600
    while any(Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert [child for child in children if Path(f"/proc/{child}").exists()] == []
    assert [path.name for path in spec.parent.iterdir()] == ["tiny.yaml"]
