"""The signals that ask a command to end, from its first line on: SIGINT, SIGTERM and SIGHUP are one and the same."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

received: list[str] = []
"""Names of the signals that came, except while a run notes them itself."""


class SignalInterrupt(KeyboardInterrupt):
    """What a signal raises that asks the command to end.

    A plain KeyboardInterrupt that passes through a text that Python runs, as libraries do while they are imported, is
    remembered: whatever exit code follows, the process then dies of SIGINT.
    """


def listen() -> None:
    """Has each of the signals raise a `SignalInterrupt`, but for those that the caller has ignored, as `nohup` does."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    received.append(signal.Signals(number).name)
    raise SignalInterrupt
