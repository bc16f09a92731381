"""Ends this process from a thread that cannot raise where the command waits: a library or an env never comes back."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn

from rlrun.errors import RlrunError

listeners: list[Callable[[RlrunError], object]] = []
"""Called with what the process ends for, in the thread that ends it: who prints one document at the end adds itself."""


def end_process(error: RlrunError) -> NoReturn:
    """Ends this process at once, with the exit code of an error that the user has been told."""
    for listener in listeners:
        listener(error)
    os._exit(error.exit_code)
