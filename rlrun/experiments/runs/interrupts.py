"""Signals (Ctrl-C, SIGTERM, SIGHUP) that make a run save and stop at the end of an iteration."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from rlrun.engine.envs.env_watch import interrupt_wanted


class Interrupts:
    """Signal handler context: the first SIGINT, SIGTERM or SIGHUP is recorded, the second raises KeyboardInterrupt.

    The first signal raises as well while an env hangs in this process, since the iteration would never end.

    Signals that the caller ignores stay ignored, as SIGHUP under `nohup`.

    Signals can only be received in the main thread. A run in another thread cannot be interrupted in this way.

    Args:
        heard: Callback after the first signal, called in the signal handler.

    Attributes:
        received: Name of the first signal, "" before any.
    """

    received: str

    def __init__(self, heard: Callable[[], object] = lambda: None) -> None:
        self.received = ""
        self._heard = heard
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        """Installs the signal handlers."""
        interrupt_wanted.clear()
        self.listen()
        return self

    def __exit__(self, *exception: object) -> None:
        """Restores the former signal handlers."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
        interrupt_wanted.clear()

    def listen(self) -> None:
        """Installs the signal handlers, also after a library (Ray, when it starts) has replaced them."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                handler = signal.signal(number, self._receive)
                self._previous.setdefault(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            raise KeyboardInterrupt
        self.received = signal.Signals(number).name
        interrupt_wanted.set()
        self._heard()
