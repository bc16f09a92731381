"""Starts a Ray of one's own on this machine: no telemetry, no dashboard, a token against other users."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

OBJECT_STORE_BYTES = 256 * 2**20
"""Fragments pass through the object store a few at a time; Ray's default is 30 % of the memory."""


def start_unless_running(num_cpus: int) -> bool:
    """Starts Ray for remote workers that are used from Python, outside of any run, unless it runs already.

    Args:
        num_cpus: CPUs that it is to believe in; cores are shared if there are fewer.

    Returns:
        Whether it was started here.
    """
    prepare_environment()
    import ray

    if ray.is_initialized():
        return False
    start(num_cpus, OBJECT_STORE_BYTES, quiet=True)
    return True


def prepare_environment() -> None:
    """Says what Ray reads when it is imported: nothing is sent home, and its token is on.

    Ray listens on all interfaces. It reads its mode of authentication once: set later, the driver and its workers would
    disagree; left alone, Ray turns its token on by itself for what it starts. What the user has set is left.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray keeps a record of every call for its dashboard, which is never started here; a long sweep makes very many.
    os.environ.setdefault("RAY_task_events_report_interval_ms", "0")
    if "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def start(num_cpus: int, object_store_bytes: int, *, quiet: bool) -> None:
    """Starts Ray in this process's name.

    Args:
        num_cpus: CPUs that it is to believe in.
        object_store_bytes: Size of its object store.
        quiet: Whether its processes' output is thrown away instead of going where this process's goes.
    """
    import ray

    if not has_token():
        # A token in the environment reaches Ray's processes and nobody else's, and writes nothing into the user's home.
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    ray.init(
        address="local",
        num_cpus=num_cpus,
        include_dashboard=False,
        object_store_memory=object_store_bytes,
        logging_level="ERROR" if quiet else "INFO",
        log_to_driver=not quiet,
    )


def has_token() -> bool:
    """Whether Ray finds a token of the user's: in the environment, a file named there, or one in the home."""
    if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH"):
        return True
    return (Path.home() / ".ray" / "auth_token").exists()
