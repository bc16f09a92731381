"""Location in users' code that prevents an update from being translated."""

from __future__ import annotations

from pathlib import Path
from types import CodeType, FrameType

from rlrun.engine.settings.sources import is_installed


def read_by_python(frame: FrameType | None, until: CodeType) -> str:
    """Returns the message for a loss that turns a tensor into a number, with file and line in users' code, if any.

    Args:
        frame: Innermost stack frame at that time.
        until: Code that calls the loss; frames outside of it are ignored.
    """
    told = "the loss turns a tensor into a Python number (`if`, `float()` or `.item()`)"
    while frame is not None and frame.f_code is not until:
        file = frame.f_code.co_filename
        if not is_installed(file) and not frame.f_globals.get("__name__", "").startswith("rlrun."):
            return f"{told} at {Path(file).name}:{frame.f_lineno}"
        frame = frame.f_back
    return told
