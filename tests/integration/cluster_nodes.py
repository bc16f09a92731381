"""A Ray cluster whose nodes are processes on this machine and can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlrun.experiments.cluster.trial_place import SCRATCH_VARIABLE

ROOT = Path(__file__).resolve().parents[2]


PATIENCE_S = 150.0
"""Timeout in seconds for anything on a busy machine."""

OF_EACH: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 100 * 2**20}


@contextmanager
def driving(arguments: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Runs ``rlrun`` with its output in `folder`/output, and ends it when the block ends."""
    with (folder / "output").open("w") as output:
        driver = subprocess.Popen(
            [sys.executable, "-m", "rlrun", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=output,
            stderr=output,
            text=True,
        )
    try:
        yield driver
    finally:
        driver.kill()
        driver.wait()


class Nodes:
    """Three nodes of two CPUs each; the driver runs on the first, number 0, and more can be added.

    Trials on all nodes but the first work in folders of their own, as on machines that do not see the run's directory.

    Args:
        folder: Folder of the nodes' own files.
        is_bare: Whether Ray's autoscaler and its collectors of logs are left out, so that nodes start faster.
    """

    def __init__(self, folder: Path, *, is_bare: bool = False) -> None:
        from ray.cluster_utils import Cluster

        self._folder = folder
        self._of_each = {**OF_EACH, "include_log_monitor": not is_bare}
        head = {**self._of_each, "include_dashboard": False, "no_monitor": is_bare}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._nodes = [self._cluster.head_node]
        self.address: str = self._cluster.address
        for _ in range(2):
            self.add()
        self.wait()

    def wait(self) -> None:
        """Waits until all nodes are there."""
        self._cluster.wait_for_nodes(timeout=PATIENCE_S)

    def add(self, **environment: str) -> int:
        """Starts another node with its own environment variables, without waiting for it; returns its number."""
        own = {SCRATCH_VARIABLE: str(self.scratch(len(self._nodes))), **environment}
        self._nodes.append(self._cluster.add_node(wait=False, env_vars=own, **self._of_each))
        return len(self._nodes) - 1

    def scratch(self, number: int) -> Path:
        """Returns the folder in which the trials of a node work."""
        return self._folder / f"scratch-{number}"

    def of_process(self, pid: int) -> int | None:
        """Returns the number of the node of a worker process, or None if the process is gone."""
        try:
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except FileNotFoundError:
            return None
        return next((number for number in range(len(self._nodes)) if self.raylet(number) == parent), None)

    def workers(self, number: int) -> list[str]:
        """Returns the names that Ray gives to the processes of a node."""
        command = ["ps", "--ppid", str(self.raylet(number)), "-o", "args=", "-ww"]
        return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()

    def pids(self, name: str) -> list[int]:
        """Returns the processes of all nodes whose name in Ray contains the given name."""
        command = ["ps", "-eo", "pid=,args="]
        lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
        found = [int(line.split()[0]) for line in lines if "ray::" in line and name in line]
        return [pid for pid in found if self.of_process(pid) is not None]

    @property
    def gcs(self) -> int:
        """The process of the head's GCS."""
        return int(self._nodes[0].all_processes["gcs_server"][0].process.pid)

    def kill(self, number: int) -> None:
        self._cluster.remove_node(self._nodes[number], allow_graceful=False)

    def close(self) -> None:
        self._cluster.shutdown()

    def raylet(self, number: int) -> int | None:
        """Returns the parent process of all workers of a node, or None once the node was killed."""
        processes = self._nodes[number].all_processes.get("raylet")
        return processes[0].process.pid if processes else None
