"""A sweep on a Ray cluster with several nodes, one of which dies; all nodes are processes on this machine.

Three nodes and their deaths take minutes on two cores, so `make chaos` runs it.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster_nodes import PATIENCE_S, Nodes, driving

import rlrun
from rlrun.engine.checkpoint.format import verify_checkpoint
from rlrun.engine.checkpoint.manifest import read_manifest
from rlrun.engine.checkpoint.store import CheckpointStore
from rlrun.engine.kernels.library import why_no_library
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.trial.results import read_results
from tests.files import files
from tests.results import all_numbers

pytestmark = pytest.mark.chaos
WORLD = '''
import time

from gymnasium.envs.classic_control.cartpole import CartPoleEnv

import clustered_clock


class Slow(CartPoleEnv):
    """CartPole at a pace at which a node can be killed in the middle."""

    def step(self, action):
        time.sleep(clustered_clock.TICK_S)
        return super().step(action)
'''
SPEC = {
    "spread": {
        "algorithm": "ppo",
        "env": "clustered_world:Slow",
        "seeds": 2,
        "stop": {"iteration": 40},
        "failure": {"max_restarts": 2},
        "checkpoint": {"every": 5, "best": None},
        # A trial needs 2.5 CPUs and a node has 2, so each trial is spread over several nodes.
        "resources": {"cpus": 1},
        "config": {
            "train_batch_size": 192,
            "min_env_steps_per_iteration": 0,
            "minibatch_size": 64,
            "num_epochs": 1,
            "num_workers": 3,
            "num_cpus_per_worker": 0.5,
            "num_envs_per_worker": 2,
            "model": {"hiddens": [8]},
        },
    }
}


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    nodes = Nodes(tmp_path)
    yield nodes
    nodes.close()


def wait_for(what: Callable[[], Any], driver: subprocess.Popen[str]) -> Any:
    """Waits until something is true, and returns it."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert driver.poll() is None, driver.returncode
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def disturbed(driver: subprocess.Popen[str], nodes: Nodes, run: Path, code: Path) -> tuple[str, int, Path]:
    """Moves the user's code away, waits until trials are spread over nodes, and kills one of the nodes.

    Returns:
        A trial whose process died, the node's number, and where the code is.
    """
    # Move the user's code away before any trial process starts: trials must use the code that was shipped.
    wait_for((run / ".token").exists, driver)
    away = Path(shutil.move(code, code.with_name("away")))

    def victim() -> tuple[str, int] | None:
        """Returns a trial that has made progress on a node other than the driver's, and that node."""
        for trial in run.glob("0*"):
            pid = json.loads((trial / "trial.json").read_text())["pid"]
            node = nodes.of_process(pid) if pid is not None and len(read_results(trial)) >= 12 else None
            if node:
                return trial.name, node
        return None

    name, dead = wait_for(victim, driver)
    spread_over = [number for number in range(3) if any("ActorShell" in line for line in nodes.workers(number))]
    assert len(spread_over) >= 2
    assert nodes.scratch(dead).is_dir()
    nodes.kill(dead)
    return name, dead, away


@pytest.mark.usefixtures("running_ray")
def test_a_sweep_completes_if_one_of_its_nodes_dies(
    tmp_path: Path, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "clustered_world.py").write_text(WORLD)
    (code / "clustered_clock.py").write_text("TICK_S = 0.002\n")
    (code / "spread.yaml").write_text(yaml.safe_dump(SPEC))
    runs, storage = tmp_path / "runs", tmp_path / "storage"
    command = ["train", "-f", "code/spread.yaml", "--address", nodes.address, "--runs-dir", str(runs)]
    run = runs / "spread"
    with driving([*command, "--set", f"storage=file://{storage}"], tmp_path) as driver:
        name, dead, away = disturbed(driver, nodes, run, code)
        exit_code = driver.wait(timeout=PATIENCE_S)
    output = (tmp_path / "output").read_text()
    assert exit_code == 0, output
    assert f"{name}: restarting (1 of 2)" in output
    assert f"{name}: continuing after iteration " in output
    for trial in ("000-seed=0", "001-seed=1"):
        assert [row["iteration"] for row in read_results(run / trial)] == list(range(1, 41))
        assert json.loads((run / trial / "trial.json").read_text())["status"] == "TERMINATED"
        kept = CheckpointStore(run / trial / "checkpoints").paths()
        assert [path.name for path in kept] == [f"iteration_{iteration:06}" for iteration in (30, 35, 40)]
        for path in kept:
            verify_checkpoint(path)
    living = nodes.scratch(3 - dead)
    assert not living.exists() or list(living.iterdir()) == []
    assert str(tmp_path / "scratch") not in output + (run / name / "trial.json").read_text()

    # The copy is complete: the whole run can be restored from it.
    copied, original = files(storage / "spread"), files(run)
    for log in ("driver.log", "run.json"):
        copied.pop(log), original.pop(log)
    assert copied == original

    # The results equal those of an undisturbed run.
    monkeypatch.syspath_prepend(away)
    seed = int(name.rpartition("=")[2])
    (undisturbed,) = rlrun.run(SPEC, runs_dir=tmp_path / "undisturbed", executor="local", seed=seed)
    assert all_numbers(read_results(run / name)) == all_numbers(read_results(undisturbed.directory))


@pytest.mark.skipif(why_no_library() != "", reason=why_no_library())
@pytest.mark.usefixtures("running_ray")
def test_if_a_node_cannot_load_the_kernels_all_trials_use_numpy_and_say_why_only_once(
    tmp_path: Path, nodes: Nodes
) -> None:
    unsafe = tmp_path / "unsafe"
    unsafe.mkdir()
    unsafe.chmod(0o777)
    nodes.add(RLRUN_CACHE=str(unsafe))
    nodes.wait()
    config = {**SPEC["spread"]["config"], "num_workers": 0}
    entry = {"algorithm": "ppo", "env": "CartPole-v1", "seeds": 2, "stop": {"iteration": 1}, "config": config}
    (tmp_path / "spread.yaml").write_text(yaml.safe_dump({"spread": entry}))
    command = ["train", "-f", "spread.yaml", "--address", nodes.address, "--runs-dir", str(tmp_path / "runs")]
    with driving(command, tmp_path) as driver:
        exit_code = driver.wait(timeout=PATIENCE_S)
    output = (tmp_path / "output").read_text()
    assert exit_code == 0, output
    assert output.count("updates are computed by NumPy instead of C kernels: on node ") == 1
    assert f"{unsafe} is writable by other users" in output
    for trial in ("000-seed=0", "001-seed=1"):
        assert RunDirectory.open(tmp_path / "runs/spread").trial(trial).update_executor == "numpy"
        (checkpoint,) = CheckpointStore(tmp_path / "runs/spread" / trial / "checkpoints").paths()
        assert read_manifest(checkpoint).about["update_executor"] == "numpy"
