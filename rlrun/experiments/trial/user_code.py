"""Attribution of exceptions to the user's code or to rlrun."""

from __future__ import annotations

import inspect
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from rlrun.engine.messages.errors import RlrunError, TrainingFailed
from rlrun.engine.settings.sources import is_installed
from rlrun.experiments.trial.altered_process import failure_of_altered_process

if TYPE_CHECKING:
    from rlrun.engine.algorithm import Algorithm

_PACKAGE = str(Path(__file__).parents[2])

_CALL = re.compile(
    r"(?P<function>[\w.<>]+)\(\) (takes|missing|got) |Can't instantiate abstract class (?P<abstract>[\w.]+) "
)
"""Regular expression for Python's errors on mismatched call arguments or missing abstract methods."""

# Frames of Ray's Cython code refer to files in Ray's source tree.
_RAY = ("python/ray/", *(str(Path(sysconfig.get_path(name), "ray")) for name in ("purelib", "platlib")))


@contextmanager
def exits_as_failures() -> Iterator[None]:
    """Context manager that converts ``sys.exit()`` in user code to a training failure.

    Otherwise, a call with exit code 0 would count as success. The SystemExit that Ray raises on SIGTERM propagates.

    Raises:
        TrainingFailed: The user's code called ``sys.exit()``; the error contains the traceback.
    """
    try:
        yield
    except SystemExit as error:
        trace = traceback.TracebackException.from_exception(error)
        if trace.stack[-1].filename.startswith(_RAY):
            raise
        trace.stack = traceback.StackSummary.from_list(_outside(trace))
        text = "".join(trace.format(chain=False)).rstrip()
        raise TrainingFailed(f"code outside rlrun tried to end the process:\n{text}") from error


@contextmanager
def user_code_explained(*plugins: type[Algorithm[Any]]) -> Iterator[None]:
    """Context manager that converts an exception in user code to a training failure with the traceback.

    Args:
        plugins: Classes of the trial's algorithms; those outside rlrun count as user code.

    Raises:
        TrainingFailed: The user's code raised an exception.
    """
    try:
        yield
    except Exception as error:
        failure = failure_of_user_code(error, *plugins)
        if failure is None:
            raise
        raise failure from error


def failure_of_user_code(
    error: Exception, *plugins: type[Algorithm[Any]], directory: Path | None = None
) -> TrainingFailed | None:
    """Training failure with the user's traceback, if an exception passed through user code; None otherwise.

    User code is any plugin from outside rlrun, and any file that is neither part of rlrun nor installed. An exception
    also counts as the user's if the user's class or function does not have the interface that rlrun requires, or if the
    user's code changed the process.

    Args:
        error: The exception.
        plugins: Classes of the algorithms, where known.
        directory: The trial's directory, if there is one.
    """
    if isinstance(error, RlrunError | MemoryError):
        return None
    trace = traceback.TracebackException.from_exception(error)
    outside = _outside(trace)
    own = [frame for frame in outside if not is_installed(frame.filename)]
    has_plugin = not all(plugin.is_built_in() for plugin in plugins)
    if not (own or (outside and has_plugin)):
        mismatch = _mismatch(error)
        return failure_of_altered_process(error, directory) if mismatch is None else TrainingFailed(mismatch)
    first = (own or outside)[0]
    called = next(
        frame.f_code.co_qualname
        for frame, line in traceback.walk_tb(error.__traceback__)
        if (frame.f_code.co_filename, line) == (first.filename, first.lineno)
    )
    trace.stack = traceback.StackSummary.from_list(outside[outside.index(first) :])
    text = "".join(trace.format(chain=False)).rstrip()
    names = " + ".join(dict.fromkeys(plugin.__name__ for plugin in plugins)) or called
    return TrainingFailed(f"{names} failed in {first.filename}:\n{text}")


def _mismatch(error: Exception) -> str | None:
    """Error message for a user's class or function whose signature does not fit its use; None if this is not the cause.

    Python raises such errors in the caller, so that the traceback has no frame of the user's code.
    """
    if isinstance(error, AttributeError):
        kind = error.obj if isinstance(error.obj, type) else type(error.obj)
        module = sys.modules.get(kind.__module__)
        if module is None or not _is_users(module):
            return None
        return (
            f"{error}, which rlrun needs: derive its class from rlrun's, and call super().__init__() in its "
            f"__init__(); it is in {module.__file__}"
        )
    called = _CALL.match(str(error)) if isinstance(error, TypeError) else None
    if called is None:
        return None
    root, *below = (called["abstract"] or called["function"]).split(".")
    for module in filter(_is_users, list(sys.modules.values())):
        found = vars(module).get(root)
        if isinstance(found, type | FunctionType) and found.__module__ == module.__name__:
            return f"{error}: {_expected(found, below)}it is in {module.__file__}"
    return None


def _expected(found: type | FunctionType, below: list[str]) -> str:
    """Hint with the signature of the overridden rlrun method; "" for other methods and functions."""
    if not (isinstance(found, type) and len(below) == 1):
        return ""
    (name,) = below
    for base in found.__mro__:
        if base.__module__.partition(".")[0] == "rlrun" and name in vars(base):
            parameters = inspect.signature(vars(base)[name]).parameters.values()
            named = ", ".join(one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD))
            return f"write {name}({named}), as in {base.__name__}; "
    return ""


def _is_users(module: ModuleType) -> bool:
    """Whether a module is the user's own code: neither part of rlrun nor an installed package."""
    file = vars(module).get("__file__")
    return file is not None and not file.startswith(_PACKAGE) and not is_installed(file)


def _outside(trace: traceback.TracebackException) -> list[traceback.FrameSummary]:
    return [frame for frame in trace.stack if not frame.filename.startswith((_PACKAGE, "<frozen "))]
