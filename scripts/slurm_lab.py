"""Runs a Slurm cluster on this machine: its controller and several nodes are processes that share one hostname.

    python -m scripts.slurm_lab start FOLDER [--nodes 3] [--cpus 2]
    export SLURM_CONF=FOLDER/slurm.conf     # then sbatch, squeue, scancel, scontrol
    python -m scripts.slurm_lab status FOLDER
    python -m scripts.slurm_lab stop FOLDER

It needs root and these Debian packages: apt-get install --no-install-recommends slurmctld slurmd slurm-client munge.
Slurm writes everything (configuration, key, logs, state) to FOLDER. Labs in other folders and the system's own Slurm
are not affected. A requeued job waits for six seconds instead of Slurm's two minutes.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

PROGRAMS = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "scontrol": "slurm-client",
}
"""Program -> the Debian package that contains it."""

PATIENCE_S = 120.0
"""Timeout in seconds for a daemon's start or end on a busy machine."""

LOOK_EVERY_S = 0.2
"""Seconds between two checks."""

# cred_expire also delays requeued jobs; Slurm ignores values below 5. All nodes run on this host, so each gets its own
# port, and its own files through %n.
CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/spool-%n
SlurmdLogFile={folder}/%n.log
SlurmdParameters=config_overrides
SlurmdTimeout=10
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobRequeue=1
KillWait=20
MinJobAge=3600
ReturnToService=2
{nodes}
PartitionName=lab Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Lists what this machine lacks for a lab; "" if nothing."""
    packages = sorted({package for program, package in PROGRAMS.items() if _program(program) is None})
    if packages:
        return f"Slurm is not installed: apt-get install --no-install-recommends {' '.join(packages)}"
    return "" if os.geteuid() == 0 else "slurmd starts only as root"


class SlurmLab:
    """A Slurm cluster in a folder; nodes are n1, n2, ...

    Args:
        folder: Folder of the lab; `start` creates it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.configuration = self.folder / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for this process, with which Slurm's commands reach the lab."""
        return {**os.environ, "SLURM_CONF": str(self.configuration)}

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes."""
        lines = self.configuration.read_text().splitlines()
        return [line.split()[0].removeprefix("NodeName=") for line in lines if line.startswith("NodeName=")]

    def start(self, nodes: int, cpus: int) -> None:
        """Starts all daemons in a new folder, and waits until the nodes are idle.

        Args:
            nodes: Number of nodes.
            cpus: CPUs of each node; the nodes share this machine's cores.

        Raises:
            RuntimeError: A daemon did not start, or this machine lacks something.
            FileExistsError: The folder is not empty.
        """
        if lacks := missing():
            raise RuntimeError(lacks)
        self.folder.mkdir(parents=True, exist_ok=True)
        if any(self.folder.iterdir()):
            raise FileExistsError(f"{self.folder} is not empty; stop its lab and delete it, or name another folder")
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        host = socket.gethostname().split(".")[0]
        controller_port, *ports = _free_ports(nodes + 1)
        lines = [
            f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory=64000"
            for number, port in enumerate(ports, 1)
        ]
        self.configuration.write_text(
            CONFIGURATION.format(host=host, folder=self.folder, controller_port=controller_port, nodes="\n".join(lines))
        )
        try:
            self._start_daemons()
        except RuntimeError:
            self.stop()
            raise

    def start_node(self, node: str) -> None:
        """Starts a node's slurmd; the node returns to service on its own."""
        self._run("slurmd", "-N", node)

    def kill_node(self, node: str) -> None:
        """Kills all processes of a node at once, as a power failure would."""
        for pid in self.processes(node):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def states(self) -> dict[str, str]:
        """State of each node, such as "idle" or "down"; a "*" at the end means that the node does not respond."""
        lines = self.command("sinfo", "--Node", "--noheader", "--format=%N %t").splitlines()
        return dict(line.split() for line in lines)

    def command(self, program: str, *arguments: str) -> str:
        """Runs a Slurm command and returns its output.

        Raises:
            RuntimeError: The command failed.
        """
        return self._run(program, *arguments)

    def daemon(self, node: str) -> int:
        """Process id of a node's slurmd."""
        return int((self.folder / f"{node}.pid").read_text())

    def processes(self, node: str) -> list[int]:
        """Process ids of a node: its slurmd, and everything that its jobs have started."""
        marks = (f"SLURM_CONF={self.configuration}", f"SLURMD_NODENAME={node}")
        found = {pid for pid in _pids() if all(mark in _environ(pid) for mark in marks)} | set(self._with_log_of(node))
        return sorted(found | _descendants(found))

    def stop(self) -> None:
        """Cancels all jobs, and ends all daemons and any processes that jobs have left running."""
        with suppress(RuntimeError, subprocess.TimeoutExpired):  # the controller may have been killed
            self.command("scancel", "--partition=lab")
            self.wait_for(lambda: not self.command("squeue", "--noheader"), "jobs do not end")
        for name in ("slurmctld", *self.nodes, "munge"):
            with suppress(FileNotFoundError, ProcessLookupError, ValueError):
                pid = int((self.folder / f"{name}.pid").read_text())
                if str(self.folder) in " ".join([*_environ(pid), _command_line(pid)]):  # the pid may have been reused
                    os.kill(pid, signal.SIGTERM)
        with suppress(RuntimeError):
            self.wait_for(lambda: not any(map(self.processes, self.nodes)), "processes do not end", 30)
        for node in self.nodes:
            self.kill_node(node)

    def wait_for(self, condition: Callable[[], bool], otherwise: str, within_s: float = PATIENCE_S) -> None:
        """Waits until a condition is true.

        Args:
            condition: The condition.
            otherwise: Message of the error.
            within_s: Timeout in seconds.

        Raises:
            RuntimeError: The condition is still false after the timeout.
        """
        end = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError(f"{otherwise} after {within_s:g} s; see the logs in {self.folder}")
            time.sleep(LOOK_EVERY_S)

    def _start_daemons(self) -> None:
        # Without --force, munged insists on a folder that every user can enter.
        own = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        self._run("munged", "--force", *(f"--{option}={self.folder}/munge.{end}" for option, end in own.items()))
        self._run("slurmctld")
        for node in self.nodes:
            self.start_node(node)
        self.wait_for(lambda: all(state == "idle" for state in self.states().values()), "nodes are not idle")

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [_program(program) or program, *arguments],
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
        )
        if done.returncode:
            raise RuntimeError(f"{program} {' '.join(arguments)}: {done.stdout.strip()} (exit {done.returncode})")
        return done.stdout

    def _with_log_of(self, node: str) -> list[int]:
        """Processes that write a node's log: slurmd and slurmstepd, whose titles overwrite their environments."""
        log = str(self.folder / f"{node}.log")
        return [pid for pid in _pids() if _comm(pid) in ("slurmd", "slurmstepd") and log in _open_files(pid)]


@contextmanager
def slurm_lab(folder: Path, *, nodes: int, cpus: int) -> Iterator[SlurmLab]:
    """Runs a lab for the duration of the context.

    Args:
        folder: Folder of the lab, empty or missing.
        nodes: Number of nodes.
        cpus: CPUs of each node.
    """
    lab = SlurmLab(folder)
    lab.start(nodes, cpus)
    try:
        yield lab
    finally:
        lab.stop()


def main() -> None:
    """Starts, shows or stops a lab."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("act", choices=("start", "status", "stop"))
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--nodes", type=int, default=3, help="number of nodes (default: 3)")
    parser.add_argument("--cpus", type=int, default=os.cpu_count(), help="CPUs of each node (default: the machine's)")
    options = parser.parse_args()
    lab = SlurmLab(options.folder)
    try:
        if options.act == "start":
            lab.start(options.nodes, options.cpus)
            print(f"{options.nodes} nodes are idle; to use them:\n  export SLURM_CONF={lab.configuration}")
            return
        if not lab.configuration.exists():
            raise RuntimeError(f"{lab.folder} has no lab")
        if options.act == "status":
            print(lab.command("sinfo", "--Node", "--long"), lab.command("squeue", "--long"), sep="", end="")
        else:
            lab.stop()
    except (RuntimeError, FileExistsError) as error:
        sys.exit(f"slurm_lab: {error}")


def _program(name: str) -> str | None:
    """Path of a program; daemons are in sbin, which may not be in PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _read(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text(errors="replace")
    except OSError:  # the process has ended
        return ""


def _environ(pid: int) -> list[str]:
    return _read(pid, "environ").split("\0")


def _command_line(pid: int) -> str:
    return _read(pid, "cmdline").replace("\0", " ")


def _comm(pid: int) -> str:
    return _read(pid, "comm").strip()


def _open_files(pid: int) -> list[str]:
    files = []
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                files.append(os.readlink(link))
    return files


def _descendants(pids: set[int]) -> set[int]:
    parents = {pid: _read(pid, "stat").rpartition(")")[2].split() for pid in _pids()}
    children: dict[int, list[int]] = {}
    for pid, fields in parents.items():
        if fields and fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(pid)
    found: set[int] = set()
    waiting = list(pids)
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


if __name__ == "__main__":
    main()
