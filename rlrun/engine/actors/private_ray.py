"""Private Ray instance on this machine: no telemetry, no dashboard, reachable only by this user and machine."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rlrun.engine.messages.errors import EnvironmentUnusable

START_ATTEMPTS = 3
"""Attempts to start Ray; each may take 30 seconds, which a busy machine may exceed."""

OBJECT_STORE_BYTES = 256 * 2**20
"""Size of the object store, which holds a few fragments at a time; Ray's default is 30% of the memory."""

LOOPBACK_VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Environment variable that, set to "0", keeps Ray on 127.0.0.1 and out of any cluster on every operating system."""

_folder: tempfile.TemporaryDirectory[str] | None = None
"""Folder for the private Ray's sockets and logs, inaccessible to other users. Ray requires a short path."""


def start_unless_running(num_cpus: int) -> bool:
    """Starts a private Ray instance for remote workers in a Python session, unless Ray is already running.

    Args:
        num_cpus: CPUs that Ray may reserve; may exceed the number of cores, which processes then share.

    Returns:
        Whether this call started Ray.
    """
    prepare_environment(loopback=True)
    import ray

    if ray.is_initialized():
        return False
    start(num_cpus, OBJECT_STORE_BYTES, quiet=True)
    return True


def prepare_environment(*, loopback: bool) -> None:
    """Sets the environment variables that Ray reads when it is imported: no telemetry, token authentication.

    Ray reads its authentication mode only once; if it were set later, this process and its workers would disagree.
    Variables that the user has set are kept.

    Args:
        loopback: Whether Ray listens only on the loopback interface (enough on a single machine), not on all
            interfaces.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray records every call for its dashboard, which is never started here; a long sweep makes a great many calls.
    os.environ.setdefault("RAY_task_events_report_interval_ms", "0")
    if "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        if loopback:
            os.environ.setdefault(LOOPBACK_VARIABLE, "0")


def start(num_cpus: int, object_store_bytes: int, *, quiet: bool, say: Callable[[str], object] = warnings.warn) -> None:
    """Starts Ray for this process, and retries if Ray does not come up in time.

    Ray ends the processes of failed attempts when this process ends.

    Args:
        num_cpus: CPUs that Ray may reserve.
        object_store_bytes: Size of Ray's object store in bytes.
        quiet: Whether to drop the output of Ray's processes instead of forwarding it to this process's output.
        say: Function that is called with a message to the user before each retry.

    Raises:
        EnvironmentUnusable: Ray did not start.
    """
    for attempt in range(1, START_ATTEMPTS + 1):
        try:
            _start(num_cpus, object_store_bytes, quiet=quiet)
            return
        except Exception as error:
            if type(error) is not Exception and not isinstance(error, ConnectionError | TimeoutError):
                raise  # for example a full disk; if a node is late, Ray raises a plain Exception
            stop()
            told = f"Ray failed to start on this machine ({str(error).strip().partition('. ')[0]})"
            if attempt == START_ATTEMPTS:
                raise EnvironmentUnusable(
                    f"{told}, {START_ATTEMPTS} times. Reduce the load on the machine, and check memory and "
                    "the limits on processes and open files. To run trials that do not need Ray, pass "
                    "--executor local"
                ) from error
            say(f"{told}, perhaps because the machine is busy: trying again")


def _start(num_cpus: int, object_store_bytes: int, *, quiet: bool) -> None:
    import ray

    if not has_token():
        # A token in the environment reaches only Ray's processes, and nothing is written to the user's home folder.
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    global _folder
    _folder = tempfile.TemporaryDirectory(prefix="rlrun-", dir=os.environ.get("RAY_TMPDIR", "/tmp"))
    with _children_in_separate_group():
        ray.init(
            address="local",
            _temp_dir=f"{_folder.name}/ray",  # Ray makes this folder accessible to all users
            num_cpus=num_cpus,
            include_dashboard=False,
            object_store_memory=object_store_bytes,
            logging_level="ERROR" if quiet else "INFO",
            log_to_driver=not quiet,
        )


@contextmanager
def _children_in_separate_group() -> Iterator[None]:
    """Context manager that starts child processes in a separate process group.

    Otherwise a signal to the command's process group, such as `timeout` or a batch system sends, would end Ray before
    its trials are saved. A group leader cannot leave its group, so its children stay in it.
    """
    group = os.getpgrp()
    if group == os.getpid():
        yield
        return
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE):  # stays in the old group, which would disappear if empty
        os.setpgrp()
        try:
            yield
        finally:
            os.setpgid(0, group)


def stop() -> None:
    """Disconnects from Ray; if this process started the Ray instance, also ends it and removes its session folder."""
    import ray

    global _folder
    ray.shutdown()
    if _folder is not None:
        _folder.cleanup()
        _folder = None


def is_bound_to_this_machine() -> bool:
    """Whether Ray was configured, when it was imported, to be reachable only from this machine.

    This cannot be changed later.
    """
    return "ray" in sys.modules and os.environ.get(LOOPBACK_VARIABLE) == "0"


def has_token() -> bool:
    """Whether the user has an authentication token for Ray, given by an environment variable or in the home folder."""
    if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH"):
        return True
    return (Path.home() / ".ray" / "auth_token").exists()
