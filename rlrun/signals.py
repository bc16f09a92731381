"""The signals SIGINT, SIGTERM and SIGHUP: each of them asks a command to end."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

received: list[str] = []
"""Names of the signals received so far, except those that a run handles itself."""


class SignalInterrupt(KeyboardInterrupt):
    """KeyboardInterrupt raised by a signal that asks the command to end.

    Python remembers a plain KeyboardInterrupt that passes through `exec`, which libraries call while they are imported.
    Whatever exit code follows, the process then dies of SIGINT. A subclass is not remembered.
    """


def listen() -> None:
    """Makes each of the signals raise a `SignalInterrupt`, except those that the caller ignores, as `nohup` does."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    received.append(signal.Signals(number).name)
    raise SignalInterrupt
