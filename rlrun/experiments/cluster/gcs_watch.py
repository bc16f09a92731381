"""Watchdog for the gcs_server of a Ray started by this process; without this server calls to Ray hang."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

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
        from ray._private import worker  # Ray offers no public way to its processes

        gcs = worker._global_node.all_processes["gcs_server"][0].process
        while not self._closed.wait(LOOK_EVERY_S):
            if gcs.poll() is not None:
                self._lost()
                return


def end_processes() -> None:
    """Kills the processes of the Ray started by this process, without calls to Ray, and removes the session folder."""
    from ray._private import worker

    worker._global_node.kill_all_processes(check_alive=False)
    shutil.rmtree(Path(worker._global_node.get_temp_dir_path()).parent, ignore_errors=True)
