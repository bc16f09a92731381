"""One small Ray for all integration tests of a session."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # stub_workers is imported by name, here and in actors


@pytest.fixture
def running_ray() -> None:
    """Has Ray running; it is started by the first test that wants it and stays for the others."""
    import ray

    if not ray.is_initialized():
        ray.init(
            address="local",  # never one that another program on this machine has started
            num_cpus=4,
            object_store_memory=100 * 2**20,
            include_dashboard=False,
            logging_level="ERROR",
            log_to_driver=False,
        )


def pytest_sessionfinish() -> None:
    """Stops Ray, if a test has started it."""
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()
