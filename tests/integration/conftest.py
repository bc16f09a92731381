"""One small Ray instance for all integration tests of a session."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # stub_workers is imported by name, here and in actors


@pytest.fixture
def running_ray() -> None:
    """Starts Ray for the first test that needs it, and keeps it running for the others."""
    import ray

    if not ray.is_initialized():
        ray.init(
            address="local",  # never a Ray that another program on this machine has started
            num_cpus=4,
            object_store_memory=100 * 2**20,
            include_dashboard=False,
            logging_level="ERROR",
            log_to_driver=False,
        )


@pytest.fixture(autouse=True, scope="module")
def no_cpus_left_behind() -> Iterator[None]:
    """Stops Ray after a file whose tests leave actors behind, so that no other file waits forever for their CPUs."""
    yield
    if "ray" not in sys.modules or not sys.modules["ray"].is_initialized():
        return
    ray = sys.modules["ray"]
    gc.collect()  # actors end when the last reference to them is gone
    everything, give_up_at = ray.cluster_resources()["CPU"], time.monotonic() + 20.0
    while ray.available_resources().get("CPU", 0.0) < everything:
        if time.monotonic() > give_up_at:
            ray.shutdown()
            return
        time.sleep(0.1)


def pytest_sessionfinish() -> None:
    """Stops Ray, if a test has started it."""
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()
