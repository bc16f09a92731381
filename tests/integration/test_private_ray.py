"""Who can reach the private Ray that workers start if none is running, and what it leaves behind."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import os, sys
from pathlib import Path
from rlrun.engine.actors import private_ray
from rlrun.engine.flow.policy_workers import PolicyWorkers
from rlrun.engine.rollout.worker_set import WorkerSet
from stub_workers import StubConfig, descendants

def listening(pid):
    inodes = set()
    for link in links_of(pid):
        try:
            inodes.add(os.readlink(link))
        except OSError:
            pass
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                yield words[1].rpartition(":")[0]

def links_of(pid):
    try:
        return list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # it has ended, as what listed the processes has
        return []

workers = WorkerSet(StubConfig(folder=Path(sys.argv[1])), 1, factory="stub_workers:StubWorker")
print("row", *PolicyWorkers(workers, "default").rollouts().take(1)[0]["row"][:2].tolist())
started = descendants(os.getpid())
print("started", *started)
print("addresses", *sorted({address for pid in (os.getpid(), *started) for address in listening(pid)}))
folder = Path(private_ray._folder.name)
print("folder", folder, oct(folder.stat().st_mode & 0o777))
workers.close()
print("left", sys.modules["ray"].is_initialized(), folder.exists())
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
"""127.0.0.1, the same address in IPv6, and ::1, as in /proc/net/tcp."""


def told_by(program: str, folder: Path) -> dict[str, list[str]]:
    """Runs a program without Ray's variables except the niceness; returns each line's words by its first word."""
    kept = "RAY_worker_niceness"
    environment = {name: value for name, value in os.environ.items() if name == kept or not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(folder)],
        env={**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)])},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr
    return {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line}


@pytest.mark.parametrize(
    "first",
    [
        pytest.param("", id="unasked"),
        pytest.param("import ray\n", id="ray imported before", marks=pytest.mark.regress),
    ],
)
def test_a_private_ray_listens_only_on_loopback_and_leaves_no_folder_or_process_behind(
    first: str, tmp_path: Path
) -> None:
    told = told_by(first + PROGRAM, tmp_path)
    assert told["row"] == ["1", "0"]
    assert told["addresses"]
    if not first:  # once imported, Ray has already chosen its addresses
        assert set(told["addresses"]) <= LOOPBACK
    assert told["folder"][1] == "0o700"
    assert told["left"] == ["False", "False"]
    assert len(told["started"]) > 2
    give_up_at = time.monotonic() + 600
    while any(Path(f"/proc/{pid}").exists() for pid in told["started"]):
        assert time.monotonic() < give_up_at
        time.sleep(0.05)
