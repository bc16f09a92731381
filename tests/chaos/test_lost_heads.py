"""Runs that lose their cluster's head and its disk continue from the storage, with the rows of an undisturbed run.

A head pod and a worker pod are two nodes of a Ray cluster on this machine. As KubeRay does, the head has no CPUs and
runs the driver, and the same command starts on a new cluster with an empty disk. Only the head has the storage's keys.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from disturbed_run import ROOT, kill
from run_until_signal import descendants
from test_disturbed_sweeps import SEEDS, numbers

from rlrun.engine.checkpoint.file_systems import file_system, read_chunks
from rlrun.experiments.cluster.trial_place import SCRATCH_VARIABLE
from rlrun.experiments.runs.run_directory import RUN_FILE, RunDirectory
from rlrun.experiments.runs.run_upload import copy_location
from rlrun.experiments.trial.results import RESULT_FILE, read_results

SERVER = shutil.which("moto_server")
LOSSES = 4
SOON_S = 30.0
PATIENCE_S = 600.0
KEYS = {"AWS_ACCESS_KEY_ID": "lab", "AWS_SECRET_ACCESS_KEY": "lab", "AWS_EC2_METADATA_DISABLED": "true"}
WORLD = '''
import os
import time

from gymnasium.envs.classic_control.cartpole import CartPoleEnv

TICK_S = float(os.environ["LAB_TICK_S"])


class Slow(CartPoleEnv):
    """CartPole at a pace at which several copies are made of a run."""

    def step(self, action):
        time.sleep(TICK_S)
        return super().step(action)
'''
ITERATIONS = 60
ENTRY: dict[str, Any] = {
    "algorithm": "ppo",
    "env": "lost_head_world:Slow",
    "seeds": 2,
    "stop": {"iteration": ITERATIONS},
    "checkpoint": {"every": 7, "best": None},
    "resources": {"cpus": 0.5},
    "config": {
        "lr": {"grid_search": [1e-3, 3e-4]},
        "train_batch_size": 192,
        "min_env_steps_per_iteration": 0,
        "minibatch_size": 64,
        "num_epochs": 1,
        "num_workers": 1,
        "num_cpus_per_worker": 0.5,
        "num_envs_per_worker": 2,
        "model": {"hiddens": [8]},
    },
}
NAME = "head"

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(SERVER is None, reason="no S3 server: install moto[server], in an environment of its own"),
]


def write_spec(folder: Path, storage: str | None) -> None:
    (folder / "lost_head_world.py").write_text(WORLD)
    (folder / "spec.yaml").write_text(yaml.safe_dump({NAME: {**ENTRY, "storage": storage}}))


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """The undisturbed run on one machine."""
    folder = tmp_path_factory.mktemp("calm")
    write_spec(folder, None)
    command = [sys.executable, "-m", "rlrun", "train", "-f", "spec.yaml", "--runs-dir", "runs"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LAB_TICK_S": "0"}
    subprocess.run(command, env=environment, check=True, capture_output=True, cwd=folder)
    return RunDirectory.open(folder / "runs" / NAME)


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URI of a bucket of an S3 server on this machine."""
    from pyarrow.fs import S3FileSystem

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (tmp_path / "server").open("w") as output:
        server = subprocess.Popen([str(SERVER), "-H", "127.0.0.1", "-p", str(port)], stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                break
            assert server.poll() is None, (tmp_path / "server").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for name, value in KEYS.items():
            monkeypatch.setenv(name, value)
        address = f"127.0.0.1:{port}"
        S3FileSystem(endpoint_override=address, scheme="http", allow_bucket_creation=True).create_dir("bucket")
        yield f"s3://bucket/runs?endpoint_override={address}&scheme=http"
    finally:
        server.kill()
        server.wait()


class Pods:
    """A head without CPUs, on which the command runs, and a worker of two CPUs; both have disks of their own."""

    def __init__(self, folder: Path, storage: str) -> None:
        from ray.cluster_utils import Cluster

        folder.mkdir()
        self.folder = folder
        write_spec(folder, storage)
        memory = 100 * 2**20
        pace = {"LAB_TICK_S": "0.004"}
        of_worker = {**pace, **dict.fromkeys(KEYS, ""), SCRATCH_VARIABLE: str(folder / "worker")}
        of_head = {"num_cpus": 0, "object_store_memory": memory, "include_dashboard": False, "env_vars": pace}
        self._cluster = Cluster(initialize_head=True, head_node_args=of_head)
        self._cluster.add_node(num_cpus=2, object_store_memory=memory, env_vars=of_worker)
        self._cluster.wait_for_nodes(timeout=PATIENCE_S)
        self._driver: subprocess.Popen[bytes] | None = None

    def train(self) -> subprocess.Popen[bytes]:
        """Starts the command on the head."""
        command = ["train", "-f", "spec.yaml", "--address", self._cluster.address, "--runs-dir", "runs", "--resume"]
        with (self.folder / "output").open("a") as output:
            self._driver = subprocess.Popen(
                [sys.executable, "-m", "rlrun", *command],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "LAB_TICK_S": "0"},
                stdout=output,
                stderr=output,
            )
        return self._driver

    def rows(self) -> dict[str, int]:
        """Returns how many rows of each trial are on the head's disk."""
        return rows_of(self.folder / "runs" / NAME)

    def kill_head(self) -> None:
        """Kills every process of the head at once, the command included."""
        assert self._driver is not None
        head = [info.process.pid for infos in self._cluster.head_node.all_processes.values() for info in infos]
        if self._driver.poll() is None:
            head.append(self._driver.pid)
        kill([pid for process in head for pid in descendants(process)])
        self._driver.wait()

    def discard(self) -> None:
        """Ends the worker, and deletes both disks."""
        self._cluster.shutdown()
        shutil.rmtree(self.folder)


def rows_of(run: Path) -> dict[str, int]:
    if not (run / RUN_FILE).exists():
        return {}
    return {name: len(read_results(run / name)) for name in RunDirectory.open(run).table.trials}


def wait_for_rows(pods: Pods, driver: subprocess.Popen[bytes], number: int) -> None:
    """Waits until the head's disk has this many rows, or the command has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while driver.poll() is None and sum(pods.rows().values()) < number:
        assert time.monotonic() < deadline, (pods.folder / "output").read_text()
        time.sleep(0.1)


def copied_rows(storage: str) -> dict[str, int]:
    """Returns how many rows of each trial are in the storage."""
    from pyarrow.fs import FileSelector

    files, root = file_system(copy_location(storage, NAME))
    found = files.get_file_info(FileSelector(root, allow_not_found=True, recursive=True))
    rows = [info.path for info in found if info.base_name == RESULT_FILE]
    return {path.split("/")[-2]: b"".join(read_chunks(files, path)).count(b"\n") for path in sorted(rows)}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_loses_its_head_nodes_continues_from_storage_and_matches_an_undisturbed_one(
    seed: int, calm: RunDirectory, storage: str, tmp_path: Path
) -> None:
    chance = random.Random(f"heads {seed}")
    rows = len(calm.table.trials) * ITERATIONS
    moments = sorted(chance.randrange(1, rows) for _ in range(LOSSES))
    early, after_s = chance.randrange(LOSSES), chance.uniform(0, SOON_S)
    log: list[str] = []
    for life, moment in enumerate(moments):
        pods = Pods(tmp_path / f"pods-{life}", storage)
        driver = pods.train()
        if life == early:  # lost while it starts, fetches the run, or resumes it
            time.sleep(after_s)
        else:
            wait_for_rows(pods, driver, moment)
        ended = driver.poll()
        pods.kill_head()
        copied = copied_rows(storage)
        log.append(f"head {life} lost with rows {pods.rows()}; the storage has {copied}")
        assert ended in (None, 0), "\n".join([*log, (pods.folder / "output").read_text()])
        pods.discard()
    pods = Pods(tmp_path / "pods", storage)
    try:
        exit_code = pods.train().wait(timeout=PATIENCE_S)
        told = "\n".join([*log, (pods.folder / "output").read_text()])
        assert exit_code == 0, told
        assert numbers(RunDirectory.open(pods.folder / "runs" / NAME)) == numbers(calm), told
        # The job is retried on an empty disk, although it was complete.
        shutil.rmtree(pods.folder / "runs")
        assert pods.train().wait(timeout=PATIENCE_S) == 0, told
        assert numbers(RunDirectory.open(pods.folder / "runs" / NAME)) == numbers(calm), told
    finally:
        pods.kill_head()
        pods.discard()
    print(*log, sep="\n")
