"""Populations on a cluster whose nodes die end as if nothing had happened, or print the command that continues them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cluster_nodes import PATIENCE_S, Nodes, driving
from disturbed_run import ROOT
from test_disturbed_sweeps import SEEDS, lineage, numbers

from rlrun.engine.messages.errors import RayEnded
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.trial.results import RESULT_FILE

SPEC = Path(__file__).with_name("specs") / "pbt.yaml"
DEATHS = 4


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """The undisturbed run on one machine."""
    runs = tmp_path_factory.mktemp("calm")
    command = [sys.executable, "-m", "rlrun", "train", "-f", str(SPEC), "--runs-dir", str(runs)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True)
    return RunDirectory.open(next(runs.iterdir()))


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    nodes = Nodes(tmp_path)
    yield nodes
    nodes.close()


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_population_whose_nodes_die_matches_an_undisturbed_one(
    seed: int, calm: RunDirectory, nodes: Nodes, tmp_path: Path
) -> None:
    chance = random.Random(f"nodes {seed}")
    runs = tmp_path / "runs"
    command = ["train", "-f", str(SPEC), "--address", nodes.address, "--runs-dir", str(runs)]
    log: list[str] = []
    alive = [1, 2]
    with driving(command, tmp_path) as driver:
        for number in range(3, 3 + DEATHS):
            with suppress(subprocess.TimeoutExpired):
                driver.wait(timeout=chance.uniform(5, 40))
            dead = alive.pop(chance.randrange(len(alive)))
            log.append(f"node {dead} dies, {number} comes; the driver has ended with {driver.returncode}")
            nodes.kill(dead)
            nodes.add()
            alive.append(number)
        exit_code = driver.wait(timeout=1200)
    told = "\n".join([*log, (tmp_path / "output").read_text()])
    assert exit_code == 0, told
    run = RunDirectory.open(runs / calm.path.name)
    assert numbers(run) == numbers(calm), told
    assert lineage(run) == lineage(calm), told


@pytest.mark.chaos
@pytest.mark.timeout(1200)
def test_a_driver_whose_raylet_is_killed_prints_the_resume_command(nodes: Nodes, tmp_path: Path) -> None:
    command = ["train", str(SPEC), "--address", nodes.address, "--runs-dir", "runs"]
    with driving(command, tmp_path) as driver:
        while driver.poll() is None and not list(tmp_path.glob(f"runs/*/*/{RESULT_FILE}")):
            time.sleep(0.1)
        raylet = nodes.raylet(0)
        assert raylet is not None
        os.kill(raylet, signal.SIGKILL)
        exit_code = driver.wait(timeout=PATIENCE_S)
    output = (tmp_path / "output").read_text()
    assert exit_code == RayEnded.exit_code, output
    assert output.split()[-3:] == ["rlrun", "resume", "runs/populations"]
