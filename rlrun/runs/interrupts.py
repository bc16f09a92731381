"""Turns Ctrl-C, SIGTERM and SIGHUP into a wish: the run saves and stops at the end of an iteration."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from rlrun.envs.env_watch import interrupt_wanted


class Interrupts:
    """Notes the first SIGINT, SIGTERM or SIGHUP while open; the second ends the run at once with KeyboardInterrupt.

    So does the first where an env's own code hangs in this process, since the iteration's end would never come.

    Signals can be received on the main thread only. A run on another thread is not interruptible in this way.

    Args:
        heard: Called once the first one has come, in the middle of whatever this process was doing.

    Attributes:
        received: Name of the first signal, "" before it.
    """

    received: str

    def __init__(self, heard: Callable[[], object] = lambda: None) -> None:
        self.received = ""
        self._heard = heard
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        """Starts to listen."""
        interrupt_wanted.clear()
        self.listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives the signals back to whoever had them."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
        interrupt_wanted.clear()

    def listen(self) -> None:
        """Takes the signals, also again after a library (Ray, when it starts) has taken them for itself."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handler = signal.signal(number, self._receive)
            self._previous.setdefault(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            raise KeyboardInterrupt
        self.received = signal.Signals(number).name
        interrupt_wanted.set()
        self._heard()
