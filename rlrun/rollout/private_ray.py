"""Starts a Ray of one's own for remote workers that are used from Python, outside of any run."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

OBJECT_STORE_BYTES = 256 * 2**20
"""Fragments pass through the object store a few at a time; Ray's default is 30 % of the memory."""


def start_unless_running(num_cpus: int) -> bool:
    """Starts Ray on this machine unless it runs: no telemetry, no dashboard, no output, a token against other users.

    Args:
        num_cpus: CPUs that it is to believe in; cores are shared if there are fewer.

    Returns:
        Whether it was started here.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if "ray" not in sys.modules:  # it reads this once; imported before, it makes a token in the user's home itself
        _choose_token()
    import ray

    if ray.is_initialized():
        return False
    ray.init(
        address="local",
        num_cpus=num_cpus,
        include_dashboard=False,
        object_store_memory=OBJECT_STORE_BYTES,
        logging_level="ERROR",
        log_to_driver=False,
    )
    return True


def _choose_token() -> None:
    """Has Ray's processes know a token that nobody else knows, unless the user has one or wants none."""
    named = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    has_token = bool(named) or (Path.home() / ".ray" / "auth_token").exists()
    if os.environ.setdefault("RAY_AUTH_MODE", "token") == "token" and not has_token:
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
