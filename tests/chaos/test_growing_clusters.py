"""Sweeps on clusters whose nodes come, leave and die have the rows of the same sweep on one machine.

The clusters are labs in namespaces of this machine, with Ray's own autoscaler.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ray_lab import MAX_NODES, ROOT, nodes_over_time, play, why_no_namespaces
from test_disturbed_sweeps import numbers

from rlrun.experiments.runs.run_directory import RunDirectory

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(why_no_namespaces()), reason=f"no namespaces on this machine: {why_no_namespaces()}"),
]
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


def write_spec(folder: Path, entry: dict[str, object]) -> Path:
    (folder / "lab_world.py").write_text(WORLD)
    (folder / "lab.yaml").write_text(yaml.safe_dump({"lab": entry}))
    return folder / "lab.yaml"


def calm(folder: Path, entry: dict[str, object]) -> RunDirectory:
    """Returns the run on one machine that nothing happens to."""
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
def test_a_sweep_on_a_cluster_that_grows_from_nothing_ends_as_on_one_machine(
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
        assert "starts again (restart " in (tmp_path / "output").read_text()


def test_trials_of_a_node_that_is_asked_to_leave_save_first_and_continue_elsewhere(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    undisturbed = calm(tmp_path_factory.mktemp("pair"), PAIR)
    write_spec(tmp_path, PAIR)
    command = ["train", "-f", "lab.yaml", "--address", "auto", "--runs-dir", "runs", "--wait-for-nodes", "120"]
    assert play("leave", tmp_path, command) == 0, told(tmp_path)
    output = (tmp_path / "output").read_text()
    assert "its node is about to leave the cluster" in output, told(tmp_path)
    assert "starts again" not in output, told(tmp_path)  # the spec allows no restart
    assert any(int(rows) < 40 for rows in (tmp_path / "rows-when-it-left").read_text().split())
    assert numbers(RunDirectory.open(tmp_path / "runs/lab")) == numbers(undisturbed), told(tmp_path)
