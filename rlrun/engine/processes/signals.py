"""Handling of SIGINT, SIGTERM and SIGHUP, each of which interrupts the command."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import NoReturn

received: list[str] = []
"""Names of the signals received so far, except those that a run handles itself."""


class SignalInterrupt(KeyboardInterrupt):
    """KeyboardInterrupt raised by a signal handler.

    If a plain KeyboardInterrupt passes through `exec`, which libraries call during import, Python later ends the
    process by SIGINT regardless of the exit code. A subclass avoids this.
    """


def listen() -> None:
    """Installs handlers that raise `SignalInterrupt`, except for signals that are already ignored, as under `nohup`."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    received.append(signal.Signals(number).name)
    raise SignalInterrupt


def die_on_sigterm() -> None:
    """Makes SIGTERM end this process immediately, as SIGKILL does; has no effect outside the main thread.

    Ray sends the signal to the processes of a job whose driver has died. Ray's own handler raises SystemExit, and an
    env that is being stepped at that moment would be blamed for it.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
