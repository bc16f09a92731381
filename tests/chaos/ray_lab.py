"""Ray clusters in namespaces: nodes join, leave and die there, isolated from any other Ray on this machine.

Run as a script, it plays one of the `SCENARIOS` around the command that follows:

    python ray_lab.py grow FOLDER rlrun train -f spec.yaml --address auto

The command's output is in FOLDER/output, and the number of nodes besides the head, each half second, in FOLDER/nodes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NAMESPACES = ("unshare", "--mount", "--pid", "--net", "--fork", "--mount-proc", "--kill-child")
INSIDE = "ip link set lo up && mkdir -p /tmp/ray && mount -t tmpfs tmpfs /tmp/ray"
PATIENCE_S = 1200.0
MAX_NODES = 4
KILL_EVERY_S = 45.0
STORE_BYTES = 100 * 2**20


def why_no_namespaces() -> str:
    """Returns why this machine has no namespaces for a lab, or "" if it has some."""
    try:
        done = subprocess.run([*NAMESPACES, "sh", "-c", INSIDE], capture_output=True, text=True)
    except FileNotFoundError as error:
        return str(error)
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""


def play(scenario: str, folder: Path, arguments: Sequence[str]) -> int:
    """Plays a scenario around ``rlrun`` with these arguments, and returns the exit code of ``rlrun``."""
    command = [sys.executable, str(Path(__file__)), scenario, str(folder), sys.executable, "-m", "rlrun", *arguments]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "0" * 64,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RLRUN_SCRATCH": str(folder / "scratch"),
    }
    with (folder / "lab").open("w") as log:
        lab = [*NAMESPACES, "sh", "-c", f'{INSIDE} && exec "$@"', "lab", *command]
        return subprocess.run(lab, env=environment, stdout=log, stderr=log, timeout=PATIENCE_S).returncode


def nodes_over_time(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "nodes").read_text().split()]


# Everything below runs inside the namespaces.


def start_autoscaled_head(folder: Path, **environment: str) -> None:
    """Starts a head of 0 CPUs whose autoscaler starts up to `MAX_NODES` nodes of one CPU, and ends idle ones."""
    worker = {
        "resources": {"CPU": 1, "object_store_memory": STORE_BYTES},
        "node_config": {},
        "min_workers": 0,
        "max_workers": MAX_NODES,
    }
    names = ("initialization", "setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray")
    config = {
        "cluster_name": "lab",
        "max_workers": MAX_NODES,
        "provider": {
            "type": "external",
            "module": "lab_provider.LabProvider",
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "cpu": worker,
        },
        "head_node_type": "ray.head.default",
        "auth": {},
        "upscaling_speed": 10.0,
        "idle_timeout_minutes": 0.1,
        "docker": {},
        **{f"{name}_commands": [] for name in names},
        "file_mounts": {},
        "cluster_synced_files": [],
        "file_mounts_sync_continuously": False,
        "rsync_exclude": [],
        "rsync_filter": [],
    }
    (folder / "autoscaling.yaml").write_text(json.dumps(config))
    start_head(f"--autoscaling-config={folder / 'autoscaling.yaml'}", AUTOSCALER_UPDATE_INTERVAL_S="1", **environment)


def start_head(*options: str, **environment: str) -> None:
    command = ["ray", "start", "--head", "--port=6379", "--num-cpus=0", "--include-dashboard=false"]
    memory = f"--object-store-memory={STORE_BYTES}"
    environment |= {"RAY_FAKE_CLUSTER": "1", "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"}
    subprocess.run([*command, memory, *options], env={**os.environ, **environment}, check=True)


def start_node(cpus: int) -> subprocess.Popen[bytes]:
    """Starts a node like a batch system or a pod: in the foreground, with SIGTERM as the request to leave."""
    command = ["ray", "start", "--address=127.0.0.1:6379", f"--num-cpus={cpus}", "--block"]
    return subprocess.Popen([*command, f"--object-store-memory={STORE_BYTES}"])


@contextmanager
def running(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "output").open("w") as output:
        driver = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        yield driver


def processes_named(name: str, *, without: str | None = None) -> list[int]:
    """Returns the processes of a program, except those with an option."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_text().split("\0")
            except OSError:
                continue
            if words[0].endswith(f"/{name}") and without not in words[1:-1]:
                found.append(int(entry.name))
    return sorted(found)


def raylets() -> list[int]:
    """Returns the processes of all nodes but the head."""
    return processes_named("raylet", without="--head")


def watch(folder: Path, until: Callable[[], Any], act: Callable[[float], None] = lambda seconds: None) -> None:
    """Counts the nodes until something is true."""
    began = time.monotonic()
    with (folder / "nodes").open("a") as counts:
        while not until():
            assert time.monotonic() - began < PATIENCE_S
            print(len(raylets()), file=counts, flush=True)
            act(time.monotonic() - began)
            time.sleep(0.5)


def grow(folder: Path, command: Sequence[str], act: Callable[[float], None] = lambda seconds: None) -> int:
    """A cluster that is empty before and after the command."""
    start_autoscaled_head(folder)
    with running(command, folder) as driver:
        watch(folder, lambda: driver.poll() is not None, act)
    watch(folder, lambda: not raylets())
    print("0", file=(folder / "nodes").open("a"))
    return int(driver.returncode)


def grow_and_die(folder: Path, command: Sequence[str]) -> int:
    """Like `grow`, but a node dies every `KILL_EVERY_S` seconds."""
    chance, kills = random.Random(0), [KILL_EVERY_S]

    def act(seconds: float) -> None:
        if seconds >= kills[-1] and (found := raylets()):
            os.kill(chance.choice(found), signal.SIGKILL)
            kills.append(kills[-1] + KILL_EVERY_S)

    code = grow(folder, command, act)
    (folder / "kills").write_text(str(len(kills) - 1))
    return code


def leave(folder: Path, command: Sequence[str]) -> int:
    """Two nodes; the first is asked to leave once all trials have made progress, and a third takes over."""
    start_head()
    first, _ = start_node(2), start_node(2)

    def have_come_some_way() -> bool:
        rows = [len(file.read_text().splitlines()) for file in folder.glob("runs/*/*/result.json")]
        return len(rows) > 1 and min(rows) >= 8

    with running(command, folder) as driver:
        watch(folder, lambda: driver.poll() is not None or have_come_some_way())
        start_node(2)
        first.send_signal(signal.SIGTERM)
        watch(folder, lambda: driver.poll() is not None)
    return int(driver.returncode)


def lack(folder: Path, command: Sequence[str]) -> int:
    """A cluster whose autoscaler can start no node."""
    start_autoscaled_head(folder, LAB_WITHOUT_QUOTA="1")
    with running(command, folder) as driver:
        return driver.wait(timeout=PATIENCE_S)


def refuse(folder: Path, command: Sequence[str]) -> int:
    """A cluster that cannot be joined, for one reason after another; records the seconds and the messages."""
    start_head()
    (raylet,) = processes_named("raylet")
    (gcs,) = processes_named("gcs_server")
    told: dict[str, tuple[int, float, str]] = {}

    def join(why: str, **environment: str) -> None:
        began = time.monotonic()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment})
        told[why] = (done.returncode, time.monotonic() - began, done.stderr)

    join("another token", RAY_AUTH_TOKEN="1" * 64)
    for why, process in {"a stopped raylet": raylet, "a stopped GCS": gcs}.items():
        os.kill(process, signal.SIGSTOP)
        join(why)
        os.kill(process, signal.SIGCONT)
    os.kill(raylet, signal.SIGKILL)
    join("a dead raylet")
    os.kill(gcs, signal.SIGKILL)
    join("a dead GCS")
    (folder / "told").write_text(json.dumps(told))
    return 0


def interrupt(folder: Path, command: Sequence[str]) -> int:
    """A run that is interrupted while it waits for nodes."""
    start_head()
    with running(command, folder) as driver:
        watch(folder, lambda: driver.poll() is not None or "waiting for nodes" in (folder / "output").read_text())
        driver.send_signal(signal.SIGINT)
        driver.wait(timeout=PATIENCE_S)
    return int(driver.returncode)


SCENARIOS: dict[str, Callable[[Path, Sequence[str]], int]] = {
    "grow": grow,
    "grow_and_die": grow_and_die,
    "leave": leave,
    "lack": lack,
    "refuse": refuse,
    "interrupt": interrupt,
}

if __name__ == "__main__":
    sys.exit(SCENARIOS[sys.argv[1]](Path(sys.argv[2]), sys.argv[3:]))
