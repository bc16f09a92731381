"""Detection of changes that other code, such as an env, has made to process state or files that rlrun needs."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from rlrun.engine.messages.errors import TrainingFailed

_TICK_S = 0.001
"""Seconds within which each of Python's clocks must advance."""


def failure_of_altered_process(error: Exception, directory: Path | None = None) -> TrainingFailed | None:
    """Failure of a trial whose env or other code changed process state or removed files; None if nothing changed.

    The failure lists the changes, which probably caused the exception.

    Args:
        error: The exception, raised in rlrun or in a library that it uses.
        directory: The trial's directory, if there is one.
    """
    found = [*_altered(), *(() if directory is None else _removed(error, directory))]
    if not found:
        return None
    trace = "".join(traceback.format_exception(error)).rstrip()
    return TrainingFailed(
        f"code outside rlrun, such as the env, has changed the Python process: {'; '.join(found)}. This then "
        f"failed:\n{trace}"
    )


def require_elapsed(seconds: float) -> None:
    """Checks that the measured duration of an iteration is positive, since user code may have stopped the clock.

    Args:
        seconds: Duration of the iteration, measured with `time.perf_counter`.

    Raises:
        TrainingFailed: The duration is not positive.
    """
    if not seconds:
        raise TrainingFailed(
            "code outside rlrun, such as the env, has stopped Python's clock: time.perf_counter() does not "
            "advance, so nothing can be timed."
        )


def _altered() -> Iterator[str]:
    torch = sys.modules.get("torch")
    if torch is not None and not torch.is_grad_enabled():
        yield (
            "torch does not record gradients (after torch.set_grad_enabled(False), or inside torch.inference_mode())"
        )
    for name in ("stdout", "stderr"):
        if vars(sys)[name] is None:
            yield f"sys.{name} is None"
    before = time.perf_counter()
    time.sleep(_TICK_S)
    if time.perf_counter() <= before:
        yield "time.perf_counter() does not advance"


def _removed(error: Exception, directory: Path) -> Iterator[str]:
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str | Path):
        path = Path(error.filename)
        if path.is_relative_to(directory):
            yield f"{path} was removed while it was being written"
