"""Watchdog for the gcs_server of a Ray started by this process; without this server calls to Ray hang."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rlrun.experiments.cluster.ray_internals import gcs_server

LOOK_EVERY_S = 0.5
"""Seconds between two checks."""


class GcsWatch:
    """Watchdog thread: calls a function when the gcs_server has died.

    Most calls to Ray then hang and ignore signals. After `RAY_gcs_rpc_server_reconnect_timeout_s` (60 s) Ray ends this
    process without a message.

    Args:
        lost: Callback for the death of the server.
    """

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch-gcs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops the watchdog; to be called before Ray's shutdown, which would count as a crash."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        gcs = gcs_server()
        while not self._closed.wait(LOOK_EVERY_S):
            if gcs.poll() is not None:
                self._lost()
                return
