"""Rollout workers that do as they are told: count, sleep, hang, raise and die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.functional.moments import Moments
from rlrun.engine.messages.errors import EnvironmentUnusable, TrainingFailed
from rlrun.engine.rollout.rollout import Episode, Rollout
from rlrun.engine.rollout.worker import Orders


def shifted_values(outputs: Any, batch: SampleBatch) -> Any:
    """Returns the values of rows plus their `shift`; a remote learner evaluates this."""
    return {"values": outputs.values + batch["shift"]}


class LabError(TrainingFailed):
    """An error whose constructor takes more than its text."""

    def __init__(self, part: str, temperature: float) -> None:
        super().__init__(f"{part} is at {temperature} K")
        self.temperature = temperature


@dataclass(frozen=True)
class StubConfig:
    """What a stub does.

    Attributes:
        acts: What happens in a fragment instead of an answer, by (worker, fragment): hang, die, exit, lab-error,
            value-error, once; "wait", until the test opens the worker's gate; or "always die".
        seconds: How long a fragment takes, by worker.
        folder: Folder that records what has happened once, and in which a worker's gate is opened.
    """

    folder: Path
    acts: Mapping[tuple[int, int], str] = field(default_factory=dict)
    seconds: Mapping[int, float] = field(default_factory=dict)
    worker_index: int = 0
    first_fragment: int = 0


def gate(folder: Path, worker: int) -> Path:
    """Returns the file that ends a worker's wait once it exists."""
    return folder / f"gate-{worker}"


class StubWorker:
    """Delivers one row per fragment: [worker, fragment, weights version, fragments before it was made, own pid]."""

    def __init__(self, config: StubConfig) -> None:
        self.config = config
        self.fragment = config.first_fragment
        self.version = -1
        self.closed = config.folder / f"closed-{config.worker_index}"

    def follow(self, orders: Orders) -> None:
        if "default" not in orders.weights:
            return
        if orders.weights["default"].version == 666:
            raise LabError("weights", 66.6)
        self.version = orders.weights["default"].version

    def sample(self) -> Rollout:
        worker = self.config.worker_index
        time.sleep(self.config.seconds.get(worker, 0.0))
        self.act(self.config.acts.get((worker, self.fragment), ""))
        row = [worker, self.fragment, self.version, self.config.first_fragment, os.getpid()]
        rollout = Rollout(
            worker_index=worker,
            fragment=self.fragment,
            batches={"default": SampleBatch(row=np.array(row), valid=np.ones((1, 1), np.bool_))},
            episodes=[Episode(100.0 * worker + self.fragment, 7, {"energy": 1.5})],
            filter_deltas={"default": {"returns": Moments(1.0, np.array(float(worker)), np.array(0.0))}},
            env_steps=10,
            weights_versions={"default": self.version},
            sample_s=0.25,
        )
        self.fragment += 1
        return rollout

    def act(self, what: str) -> None:
        if what == "wait":
            while not gate(self.config.folder, self.config.worker_index).exists():
                time.sleep(0.01)
            return
        if what != "always die" and what:
            note = self.config.folder / f"{self.config.worker_index}-{self.fragment}"
            if note.exists():
                return
            note.touch()
        match what:
            case "hang":
                time.sleep(3600)
            case "die" | "always die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                sys.exit("the simulator went home")
            case "lab-error":
                raise LabError("laser", 4.2)
            case "value-error":
                raise ValueError("no such lever")

    def state(self) -> dict[str, Any]:
        return {"fragment": self.fragment}

    def place(self) -> dict[str, Any]:
        return self.state()

    def load_state(self, state: Mapping[str, Any]) -> int:
        self.fragment = state["fragment"]
        return self.config.worker_index

    def close(self) -> None:
        self.closed.touch()


class ColumnsWorker(StubWorker):
    """Delivers the row as a column [1, 1, 5] of one step, so that fragments can be joined."""

    def sample(self) -> Rollout:
        rollout = super().sample()
        rollout.batches["default"]["row"] = rollout.batches["default"]["row"][None, None]
        return rollout


class ModulesWorker(StubWorker):
    """Delivers which heavy modules and thread settings its process has."""

    def sample(self) -> Rollout:
        rollout = super().sample()
        loaded = [name for name in ("torch", "gymnasium") if name in sys.modules]
        threads = [os.environ[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")]
        rollout.batches["default"]["row"] = np.array([*loaded, *threads])
        return rollout


class PlacedWorker(StubWorker):
    """Delivers the placement group that its actor runs in."""

    def sample(self) -> Rollout:
        import ray

        rollout = super().sample()
        group = ray.util.get_current_placement_group()
        rollout.batches["default"]["row"] = np.array([group.id.hex() if group else "none"])
        return rollout


def unusable(config: StubConfig) -> StubWorker:
    """Makes no worker."""
    raise EnvironmentUnusable("Lab-v3 needs a laser: pip install 'rlrun[laser]'")


class SumSoFar(StatefulOperator):
    """Replaces a row by [own pid, items so far]."""

    def __init__(self) -> None:
        self.items = 0

    def __call__(self, item: SampleBatch) -> SampleBatch:
        self.items += 1
        return SampleBatch({**item, "row": np.array([os.getpid(), self.items])})

    def state(self) -> dict[str, Any]:
        return {"items": self.items}

    def load_state(self, state: dict[str, Any]) -> None:
        self.items = state["items"]


def with_loaded_modules(batch: SampleBatch) -> SampleBatch:
    """Adds the heavy modules that the process working on the batch has imported."""
    return SampleBatch({**batch, "modules": np.array([name for name in ("torch", "gymnasium") if name in sys.modules])})


def descendants(pid: int) -> list[int]:
    """Returns the processes that a process has started, and those that they have started."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(child): int(parent) for child, parent in map(str.split, listed.splitlines())}
    found = [pid]
    for ancestor in found:
        found += [child for child, parent in parents.items() if parent == ancestor]
    return found[1:]


def actor_pids() -> list[int]:
    """Returns the processes of the actors that this process has started."""
    ours = set(descendants(os.getpid()))
    listed = subprocess.run(["ps", "-A", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
    named = [line.split(maxsplit=1) for line in listed.splitlines()]
    return [int(pid) for pid, name in named if int(pid) in ours and name.startswith("ray::ActorShell")]
