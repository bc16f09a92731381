"""Hot reload: replaces a served policy when its run has a newer checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rlrun.deploy.serving.decisions import Decisions
from rlrun.deploy.serving.served_policy import ServedPolicy
from rlrun.deploy.serving.serving_metrics import ServingMetrics
from rlrun.engine.checkpoint.manifest import read_manifest
from rlrun.engine.messages.errors import RlrunError

MOST_LOOKS = 64
"""Maximum number of checks for a newer checkpoint before a failed reload is retried."""


class Reloader:
    """Watches a trial's checkpoints, and replaces the served policy when there is a newer checkpoint.

    If a reload fails, the current policy remains, and the failure is logged and counted in the metrics. The reload is
    retried: immediately if the checkpoints change, else after 1, 2, 4, ... checks.

    Args:
        checkpoints: Folder of the trial's checkpoints.
        find: Function that returns the checkpoint to serve.
        load: Function that loads the policy of a checkpoint, without affecting requests in progress.
        decisions: Object that answers requests; each reload replaces its policy.
        metrics: Metrics of the server, in which reloads are counted.
        say: Function called with a line about each reload.
    """

    def __init__(
        self,
        checkpoints: Path,
        find: Callable[[], Path],
        load: Callable[[Path], ServedPolicy],
        decisions: Decisions,
        metrics: ServingMetrics,
        say: Callable[[str], None],
    ) -> None:
        self._checkpoints = checkpoints
        self._find = find
        self._load = load
        self._decisions = decisions
        self._metrics = metrics
        self._say = say
        self._seen: frozenset[tuple[str, int]] = frozenset()
        self._failures = 0  # in a row
        self._looks_left = 0  # until the next attempt
        self._complaint = ""
        self._is_over = threading.Event()

    @contextmanager
    def running(self, every_s: float) -> Iterator[None]:
        """Context manager that checks for a newer checkpoint at fixed intervals, in a thread."""
        thread = threading.Thread(target=self._watch, args=(every_s,), daemon=True, name="reloader")
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def look(self) -> bool:
        """Checks once for a newer checkpoint, and serves its policy; returns whether the policy was replaced."""
        before = self._decisions.served
        try:
            served = self._newer(before)
        except Exception as error:  # otherwise the thread would end and never look again
            self._fail(before, error)
            return False
        if served is None:
            return False
        self._decisions.served = served
        self._metrics.reloads += 1
        self._say(f"now serving {served.checkpoint}, {served.env_steps:,} env steps")
        return True

    def _newer(self, before: ServedPolicy) -> ServedPolicy | None:
        """Loads the policy to serve from now on; None to keep the current one, or if the next attempt is not due yet.

        Raises:
            RlrunError: The checkpoint cannot be used.
        """
        listed = self._listed()
        self._looks_left -= 1
        if listed == self._seen and (not self._failures or self._looks_left > 0):
            return None
        self._seen = listed
        checkpoint, served = self._find(), None
        if read_manifest(checkpoint).digest != before.digest:
            served = self._load(checkpoint)
            if served.spaces != before.spaces:
                raise RlrunError(f"{checkpoint}: its spaces differ from the served policy's")
        self._failures, self._complaint, self._metrics.is_reload_failing = 0, "", False
        return served

    def _fail(self, before: ServedPolicy, error: Exception) -> None:
        """Counts a failed reload, and logs it unless the last failure was the same."""
        self._looks_left = min(2**self._failures, MOST_LOOKS)
        self._failures += 1
        self._metrics.failed_reloads += 1
        self._metrics.is_reload_failing = True
        reason = str(error) if isinstance(error, RlrunError) else f"{type(error).__name__}: {error}"
        complaint = f"still serving {before.checkpoint}, because reloading failed: {reason}; will try again"
        if complaint != self._complaint:
            self._complaint = complaint
            self._say(complaint)

    def _watch(self, every_s: float) -> None:
        while not self._is_over.wait(every_s):
            self.look()

    def _listed(self) -> frozenset[tuple[str, int]]:
        """Names and times of the checkpoints in the folder."""
        found = set()
        for path in self._checkpoints.glob("*"):
            with suppress(FileNotFoundError):  # the run has just removed it
                found.add((path.name, path.stat().st_mtime_ns))
        return frozenset(found)
