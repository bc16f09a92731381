"""Watchdog for Ray's central server process (GCS), whose loss makes calls to Ray hang and then ends this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rlrun.engine.messages.errors import RayEnded, RlrunError
from rlrun.experiments.cluster.ray_internals import answers_http2, reconnect_timeout_s

LOOK_EVERY_S = 0.5
"""Seconds between two checks of the gcs_server that this process has started."""

PROBE_EVERY_S = 2.0
"""Seconds between two probes of a joined cluster's GCS."""

PROBE_TIMEOUT_S = 5.0
"""Seconds within which a joined cluster's GCS must answer a probe."""

SILENCE_SHARE = 0.5
"""Fraction of Ray's own time limit for a silent GCS, at which Ray ends this process; after this fraction, the GCS
counts as lost.
"""


class GcsWatch:
    """Watchdog thread that calls a function when Ray's central server process (GCS) is lost.

    After such a loss, most calls to Ray hang and ignore signals. After `reconnect_timeout_s` Ray ends this process
    without a message.

    Args:
        is_lost: Function that returns whether the server is lost.
        every_s: Interval between checks, in seconds.
        lost: Function that is called when the server is lost.
    """

    def __init__(self, is_lost: Callable[[], bool], every_s: float, lost: Callable[[], None]) -> None:
        self._is_lost = is_lost
        self._every_s = every_s
        self._lost = lost
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch-gcs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops the watchdog. Idempotent."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(self._every_s):
            if self._is_lost():
                if not self._closed.is_set():
                    self._lost()
                return


class Silence:
    """Checks whether the GCS of a joined cluster has been silent for so long that it counts as lost.

    A head node that restarts within the limit does not count as lost. The silence begins at the end of the first probe
    without an answer, so that a pause of this process does not count.

    Args:
        host: Host of the GCS.
        port: Port of the GCS.
        limit_s: Seconds of silence after which the GCS counts as lost.
    """

    def __init__(self, host: str, port: int, limit_s: float) -> None:
        self._host = host
        self._port = port
        self._limit_s = limit_s
        self._since: float | None = None

    def is_too_long(self) -> bool:
        """Probes the GCS once; returns whether the silence has reached the limit."""
        if answers_http2(self._host, self._port, PROBE_TIMEOUT_S):
            self._since = None
            return False
        now = time.monotonic()
        if self._since is None:
            self._since = now
        return now - self._since >= self._limit_s


def watch_head(lost: Callable[[RlrunError], None]) -> GcsWatch:
    """Starts the watchdog for the GCS of the cluster that this process has joined."""
    import ray

    gcs = ray.get_runtime_context().gcs_address
    host, _, port = gcs.rpartition(":")
    limit_s = SILENCE_SHARE * reconnect_timeout_s()
    silence = Silence(host, int(port), limit_s)
    return GcsWatch(silence.is_too_long, PROBE_EVERY_S, lambda: lost(end_of_cluster(gcs, limit_s)))


def end_of_cluster(gcs: str, silent_s: float) -> RayEnded:
    """Creates the error that a run raises after it has lost the head of the cluster that it has joined.

    Args:
        gcs: Address of the head's GCS.
        silent_s: Seconds since the GCS last answered.
    """
    return RayEnded(
        f"the connection to the head of the Ray cluster was lost: its GCS at {gcs} has not answered for "
        f"{silent_s:.0f} s"
    )
