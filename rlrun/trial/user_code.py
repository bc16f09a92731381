"""Tells a mistake in a user's own code from one in rlrun, so that each is shown for what it is."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rlrun
from rlrun.errors import RlrunError, TrainingFailed

_PACKAGE = str(Path(rlrun.__file__).parent)
_INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))

_RAY = tuple(str(Path(folder) / "ray") for folder in _INSTALLED)


@contextmanager
def exits_as_failures() -> Iterator[None]:
    """Turns a ``sys.exit()`` of the user's code into a failure of training.

    Exit code 0 of a process would say that all went well. Ray's own order to end, on SIGTERM, is left as it is.

    Raises:
        TrainingFailed: If the user's code wanted to end the process; with the traceback.
    """
    try:
        yield
    except SystemExit as error:
        told = traceback.TracebackException.from_exception(error)
        if told.stack[-1].filename.startswith(_RAY):
            raise
        told.stack = traceback.StackSummary.from_list(_outside(told))
        text = "".join(told.format(chain=False)).rstrip()
        raise TrainingFailed(f"code outside rlrun wanted to end the process:\n{text}") from error


def failure_of_user_code(error: Exception, *plugins: type) -> TrainingFailed | None:
    """Returns a failure with the user's own traceback if an exception came through the user's code, else None.

    A user's code is a plugin that is not rlrun's, and every file that is neither rlrun's nor installed.

    Args:
        error: What was raised below the caller.
        plugins: The classes of the algorithms.
    """
    if isinstance(error, RlrunError | MemoryError):
        return None
    told = traceback.TracebackException.from_exception(error)
    outside = _outside(told)
    own = [frame for frame in outside if not frame.filename.startswith(_INSTALLED)]
    has_plugin = any(plugin.__module__.partition(".")[0] != "rlrun" for plugin in plugins)
    if not (own or (outside and has_plugin)):
        return None
    first = (own or outside)[0]
    told.stack = traceback.StackSummary.from_list(outside[outside.index(first) :])
    text = "".join(told.format(chain=False)).rstrip()
    names = " + ".join(dict.fromkeys(plugin.__name__ for plugin in plugins))
    return TrainingFailed(f"{names} failed in {first.filename}:\n{text}")


def _outside(told: traceback.TracebackException) -> list[traceback.FrameSummary]:
    return [frame for frame in told.stack if not frame.filename.startswith((_PACKAGE, "<frozen "))]
