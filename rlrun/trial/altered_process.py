"""What code outside rlrun has changed of the process or the files that rlrun works with, and cannot work without."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from rlrun.errors import TrainingFailed

_TICK_S = 0.001
"""Seconds that a clock is given to move on: any clock of Python is finer."""


def failure_of_altered_process(error: Exception, directory: Path | None = None) -> TrainingFailed | None:
    """Returns a failure that names what was found changed when an exception came, None if nothing is.

    Args:
        error: What was raised in rlrun or in a library of its.
        directory: The trial's directory, where there is one.
    """
    found = [*_altered(), *(() if directory is None else _removed(error, directory))]
    if not found:
        return None
    trace = "".join(traceback.format_exception(error)).rstrip()
    return TrainingFailed(
        f"code outside rlrun, such as the env's, has changed what rlrun works with: {'; '.join(found)}. "
        f"What failed then:\n{trace}"
    )


def _altered() -> Iterator[str]:
    torch = sys.modules.get("torch")
    if torch is not None and not torch.is_grad_enabled():
        yield "torch records no gradients (torch.set_grad_enabled(False), or torch.inference_mode() that was not left)"
    for name in ("stdout", "stderr"):
        if vars(sys)[name] is None:
            yield f"sys.{name} is None"
    before = time.perf_counter()
    time.sleep(_TICK_S)
    if time.perf_counter() <= before:
        yield "time.perf_counter() stands still"


def _removed(error: Exception, directory: Path) -> Iterator[str]:
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str | Path):
        path = Path(error.filename)
        if path.is_relative_to(directory):
            yield f"{path} was removed while it was written"
