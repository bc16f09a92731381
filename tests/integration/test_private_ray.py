"""Who can reach the Ray that a run starts for itself."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import os, sys
from pathlib import Path
from rlrun.actors import private_ray

def listening(pid):
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(link))
        except OSError:
            pass
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                yield words[1].rpartition(":")[0]

def below(pid):
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from below(int(child))

assert private_ray.start_unless_running(1)
import ray

@ray.remote
class Actor:
    def answer(self):
        return 1

actor = Actor.remote()
ray.get(actor.answer.remote())
print("addresses", *sorted({address for pid in below(os.getpid()) for address in listening(pid)}))
folder = Path(private_ray._folder.name)
print("folder", folder, oct(folder.stat().st_mode & 0o777))
private_ray.stop()
print("left", folder.exists())
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
"""127.0.0.1, the same as IPv6 writes it, and ::1, as /proc/net/tcp shows them."""


def test_a_private_ray_listens_on_loopback_alone_and_its_folder_is_the_users_and_goes() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    told = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line}
    assert told["addresses"]
    assert set(told["addresses"]) <= LOOPBACK
    assert told["folder"][1] == "0o700"
    assert told["left"] == ["False"]
