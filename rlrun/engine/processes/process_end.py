"""Termination of this process by a thread while the main thread hangs in a library or an env."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn

from rlrun.engine.messages.errors import RlrunError

listeners: list[Callable[[RlrunError], object]] = []
"""Callbacks that receive the error before the process ends, in the thread that ends it; `--json` prints its output
here."""


def end_process(error: RlrunError) -> NoReturn:
    """Ends this process immediately, with the exit code of the given error, which has already been printed."""
    for listener in listeners:
        listener(error)
    os._exit(error.exit_code)
