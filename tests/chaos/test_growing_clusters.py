"""Sweeps on clusters whose nodes join, leave and die have the same rows as the sweep on one machine.

The clusters are labs in namespaces of this machine, with Ray's own autoscaler.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ray_lab import MAX_NODES, ROOT, nodes_over_time, play, why_no_namespaces
from test_disturbed_sweeps import lineage, numbers

from rlrun.engine.messages.errors import ExitCode
from rlrun.experiments.runs.run_directory import RunDirectory

WHY_NOT = why_no_namespaces()
pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(WHY_NOT != "", reason=f"no namespaces on this machine: {WHY_NOT}"),
]
START_S = 30.0
"""Timeout in seconds for the command itself on a busy machine."""

WORLD = '''
import os
import time

from gymnasium.envs.classic_control.cartpole import CartPoleEnv

TICK_S = float(os.environ.get("LAB_TICK_S", "0.002"))


class Slow(CartPoleEnv):
    """CartPole at a pace at which nodes come and go in the middle."""

    def step(self, action):
        time.sleep(TICK_S)
        return super().step(action)
'''
ENTRY = {
    "algorithm": "ppo",
    "env": "lab_world:Slow",
    "stop": {"iteration": 40},
    "checkpoint": {"every": 5, "best": None},
    "resources": {"cpus": 1},
    "config": {
        "train_batch_size": 192,
        "min_env_steps_per_iteration": 0,
        "minibatch_size": 64,
        "num_epochs": 1,
        "num_envs_per_worker": 2,
        "model": {"hiddens": [8]},
    },
}
SWEEP = {**ENTRY, "seeds": 3, "failure": {"max_restarts": 100}}
SWEEP = {**SWEEP, "config": {**ENTRY["config"], "lr": {"grid_search": [1e-4, 3e-4, 1e-3, 3e-3]}}}
PAIR = {**ENTRY, "seeds": 2, "config": {**ENTRY["config"], "num_workers": 1}}
(POPULATION,) = yaml.safe_load(Path(__file__).with_name("specs").joinpath("pbt.yaml").read_text()).values()
POPULATION |= {"env": "lab_world:Slow", "seeds": 1, "failure": {"max_restarts": 0}, "resources": {"cpus": 1}}


def write_spec(folder: Path, entry: dict[str, object]) -> Path:
    (folder / "lab_world.py").write_text(WORLD)
    (folder / "lab.yaml").write_text(yaml.safe_dump({"lab": entry}))
    return folder / "lab.yaml"


def calm(folder: Path, entry: dict[str, object]) -> RunDirectory:
    """Returns the undisturbed run on one machine."""
    spec = write_spec(folder, entry)
    command = [sys.executable, "-m", "rlrun", "train", "-f", str(spec), "--runs-dir", str(folder / "runs")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LAB_TICK_S": "0"}
    subprocess.run(command, env=environment, check=True, capture_output=True, cwd=folder)
    return RunDirectory.open(folder / "runs/lab")


@pytest.fixture(scope="module")
def calm_sweep(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return calm(tmp_path_factory.mktemp("sweep"), SWEEP)


def told(folder: Path) -> str:
    return "\n".join(file.read_text() for name in ("output", "lab") if (file := folder / name).exists())


@pytest.mark.parametrize("scenario", ["grow", "grow_and_die"])
def test_a_sweep_on_a_cluster_growing_from_zero_nodes_ends_as_it_does_on_one_machine(
    scenario: str, calm_sweep: RunDirectory, tmp_path: Path
) -> None:
    write_spec(tmp_path, SWEEP)
    command = ["train", "-f", "lab.yaml", "--address", "auto", "--runs-dir", "runs"]
    assert play(scenario, tmp_path, command) == 0, told(tmp_path)
    assert numbers(RunDirectory.open(tmp_path / "runs/lab")) == numbers(calm_sweep), told(tmp_path)
    nodes = nodes_over_time(tmp_path)
    assert (nodes[0], max(nodes), nodes[-1]) == (0, MAX_NODES, 0)
    assert "waiting for nodes" in (tmp_path / "output").read_text()
    if scenario == "grow_and_die":
        assert int((tmp_path / "kills").read_text()) >= 2
        assert ": restarting (" in (tmp_path / "output").read_text()


@pytest.mark.parametrize("entry", [PAIR, POPULATION], ids=["pair", "population"])
def test_trials_on_a_draining_node_save_a_checkpoint_and_continue_on_another_node(
    entry: dict[str, object], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    undisturbed = calm(tmp_path_factory.mktemp("calm"), entry)
    write_spec(tmp_path, entry)
    command = ["train", "-f", "lab.yaml", "--address", "auto", "--runs-dir", "runs", "--wait-for-nodes", "120"]
    assert play("leave", tmp_path, command) == 0, told(tmp_path)
    output = (tmp_path / "output").read_text()
    assert "its node is about to leave the cluster" in output, told(tmp_path)
    assert ": restarting (" not in output, told(tmp_path)  # the spec allows no restart
    run = RunDirectory.open(tmp_path / "runs/lab")
    assert numbers(run) == numbers(undisturbed), told(tmp_path)
    assert lineage(run) == lineage(undisturbed), told(tmp_path)


def test_waiting_for_nodes_ends_at_the_time_limit_and_reports_why_none_joined(tmp_path: Path) -> None:
    write_spec(tmp_path, SWEEP)
    command = ["train", "-f", "lab.yaml", "--address", "auto", "--runs-dir", "runs", "--wait-for-nodes", "40"]
    assert play("lack", tmp_path, command) == ExitCode.USAGE_OR_SPEC, told(tmp_path)
    *waited, refused = (tmp_path / "output").read_text().splitlines()
    assert "could not start: cpu (the lab has no quota)" in waited[-1], told(tmp_path)
    assert refused.startswith("Error: trial 000"), refused
    assert "cpu (the lab has no quota)" in refused
    assert list((tmp_path / "runs").iterdir()) == []


def test_joining_an_unusable_cluster_fails_within_a_minute_and_says_what_responded(tmp_path: Path) -> None:
    write_spec(tmp_path, PAIR)
    command = ["train", "-f", "lab.yaml", "--address", "auto", "--runs-dir", "runs"]
    assert play("refuse", tmp_path, command) == 0, told(tmp_path)
    answers = json.loads((tmp_path / "told").read_text())
    for why, missing in {
        "another token": "rejects the token",
        "a stopped raylet": "raylet does not answer",
        "a stopped GCS": "does not answer",
        "a dead raylet": "no raylet",
        "a dead GCS": "does not answer",
    }.items():
        exit_code, seconds, message = answers[why]
        assert exit_code == ExitCode.USAGE_OR_SPEC, answers
        assert seconds < 60 + START_S, answers
        assert missing in message, answers
        assert ("accepts the token" in message) == ("raylet" in why), answers
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_run_interrupted_while_waiting_for_nodes_can_be_resumed(tmp_path: Path) -> None:
    write_spec(tmp_path, PAIR)
    command = ["train", "-f", "lab.yaml", "--address", "auto", "--runs-dir", "runs", "--wait-for-nodes", "600"]
    assert play("interrupt", tmp_path, command) == ExitCode.INTERRUPTED, told(tmp_path)
    assert "rlrun resume runs/lab" in (tmp_path / "output").read_text()
    assert [trial.status for trial in RunDirectory.open(tmp_path / "runs/lab").results()] == ["PENDING", "PENDING"]
