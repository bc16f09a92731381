"""Starts a Ray of one's own for remote workers that are used from Python, outside of any run."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

OBJECT_STORE_BYTES = 256 * 2**20
"""Fragments pass through the object store a few at a time; Ray's default is 30 % of the memory."""


def start_private_ray(num_cpus: int) -> None:
    """Starts Ray on this machine: no telemetry, no dashboard, no output, a secret token against other users.

    Args:
        num_cpus: CPUs that it is to believe in; cores are shared if there are fewer.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if os.environ.setdefault("RAY_AUTH_MODE", "token") == "token" and not _has_token():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    import ray

    ray.init(
        address="local",
        num_cpus=num_cpus,
        include_dashboard=False,
        object_store_memory=OBJECT_STORE_BYTES,
        logging_level="ERROR",
        log_to_driver=False,
    )


def _has_token() -> bool:
    named = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    return bool(named) or (Path.home() / ".ray" / "auth_token").exists()
