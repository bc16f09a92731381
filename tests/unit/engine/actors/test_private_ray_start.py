"""A Ray that does not start in time is started again; if it never does, there is a clear error."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from rlrun.engine.actors import private_ray
from rlrun.engine.messages.errors import EnvironmentUnusable

TIMED_OUT = Exception(
    "The current node timed out during startup. This could happen because some of the raylet failed to startup or the "
    "GCS has become overloaded."
)
"""The error that Ray raises after 30 seconds, for which no test waits."""


class StartedRays:
    """Stand-in for `ray.init`: each call fails with the next failure, if there is one left."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.folders: list[Path] = []

    def __call__(self, *, _temp_dir: str, **_settings: Any) -> None:
        self.folders.append(Path(_temp_dir).parent)
        if self.failures:
            raise self.failures.pop(0)


@pytest.fixture
def rays(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartedRays]:
    """Rays that fail as the test's parameter says."""
    started = StartedRays(*request.param)
    monkeypatch.setattr(ray, "init", started)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "mine")
    yield started
    private_ray.stop()
    assert not any(folder.exists() for folder in started.folders)


@pytest.mark.parametrize("rays", [[TIMED_OUT]], indirect=True)
def test_starting_ray_is_retried_with_a_message_after_a_timeout(rays: StartedRays, wording) -> None:
    told: list[str] = []
    private_ray.start(1, 2**27, quiet=True, say=told.append)
    assert told == wording()
    assert len(set(rays.folders)) == 2


@pytest.mark.parametrize("rays", [[TIMED_OUT] * 3], indirect=True)
def test_starting_ray_fails_with_an_error_after_three_timeouts(rays: StartedRays, wording) -> None:
    with wording.raised(EnvironmentUnusable) as told:
        private_ray.start(1, 2**27, quiet=True, say=[].append)
    assert told.value.exit_code == 6
    assert len(rays.folders) == 3


@pytest.mark.parametrize(
    "rays", [[ValueError("too little memory")], [OSError(errno.ENOSPC, "too little left")]], indirect=True
)
def test_failures_to_start_ray_other_than_timeouts_are_raised_without_a_retry(rays: StartedRays) -> None:
    with pytest.raises((ValueError, OSError), match="too little"):
        private_ray.start(1, 2**27, quiet=True)
    assert len(rays.folders) == 1
