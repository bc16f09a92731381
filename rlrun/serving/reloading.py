"""Hot reload: a served policy is replaced when its run has a newer checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rlrun.checkpoint.manifest import read_manifest
from rlrun.errors import RlrunError
from rlrun.serving.decisions import Decisions
from rlrun.serving.served_policy import ServedPolicy
from rlrun.serving.serving_metrics import ServingMetrics


class Reloader:
    """Watch over the checkpoints of a trial, for the one to serve.

    A checkpoint that cannot be used is told of, and the former one is served on.

    Args:
        checkpoints: Folder of the trial's checkpoints.
        find: Finds the checkpoint to serve.
        load: Loads the policy of a checkpoint; without effects on requests that are being answered.
        decisions: Decisions of the policy.
        metrics: Counts of reloads.
        say: Receives a line about each reload.
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
        self._is_over = threading.Event()

    @contextmanager
    def running(self, every_s: float) -> Iterator[None]:
        """Context manager that looks for another checkpoint every so many seconds, in a thread."""
        thread = threading.Thread(target=self._watch, args=(every_s,), daemon=True, name="reloader")
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def look(self) -> bool:
        """Looks for another checkpoint once; returns whether it is served from now on."""
        listed = self._listed()
        if listed == self._seen:
            return False
        self._seen = listed
        before = self._decisions.served
        try:
            checkpoint = self._find()
            if read_manifest(checkpoint).digest == before.digest:
                return False
            served = self._load(checkpoint)
            if served.spaces != before.spaces:
                raise RlrunError(f"{checkpoint}: its spaces differ from those that are served")
        except RlrunError as error:
            self._metrics.failed_reloads += 1
            self._say(f"still serves {before.checkpoint}: {error}")
            return False
        self._decisions.served = served
        self._metrics.reloads += 1
        self._say(f"serves {served.checkpoint}, {served.env_steps:,} env steps")
        return True

    def _watch(self, every_s: float) -> None:
        while not self._is_over.wait(every_s):
            self.look()

    def _listed(self) -> frozenset[tuple[str, int]]:
        """Names and times of the checkpoints in the folder."""
        found = set()
        for path in self._checkpoints.glob("*"):
            with suppress(FileNotFoundError):  # removed meanwhile by the run
                found.add((path.name, path.stat().st_mtime_ns))
        return frozenset(found)
