"""Ends this process from a thread, where the main thread hangs in a library or an env and no exception reaches it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn

from rlrun.errors import RlrunError

listeners: list[Callable[[RlrunError], object]] = []
"""Callbacks that receive the error before the process ends, in the ending thread; `--json` prints its document so."""


def end_process(error: RlrunError) -> NoReturn:
    """Ends this process at once, with the exit code of an error that has been printed already."""
    for listener in listeners:
        listener(error)
    os._exit(error.exit_code)
