"""The one document that a command prints under ``--json``, apart from whatever else is written to stdout."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, TextIO

import click

from rlrun.errors import RlrunError
from rlrun.process_end import listeners

SCHEMA = 1
"""Version of the form of documents; each begins with it."""

_KEY = "rlrun.json_document"


class JsonDocument:
    """Keeps stdout for one JSON document; what envs and libraries print there meanwhile goes to stderr.

    That is done to the file descriptor as well, since C code prints below Python. A stream in memory, which has no
    descriptor, is exchanged in Python alone.
    """

    def __init__(self) -> None:
        self._plain: TextIO = sys.stdout
        self._stream: TextIO = sys.stdout
        self._descriptor: int | None = None
        self._is_printed = False

    def __enter__(self) -> JsonDocument:
        """Sends stdout to stderr, and has `print_json` write here."""
        self._plain.flush()
        with suppress(OSError, ValueError):
            self._descriptor = self._plain.fileno()
        if self._descriptor is not None:
            self._stream = open(os.dup(self._descriptor), "w", encoding=self._plain.encoding)
            os.dup2(sys.stderr.fileno(), self._descriptor)
        sys.stdout = sys.stderr
        click.get_current_context().meta[_KEY] = self
        listeners.append(self._end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives stdout back."""
        listeners.remove(self._end)
        sys.stdout = self._plain
        if self._descriptor is None:
            return
        os.dup2(self._stream.fileno(), self._descriptor)
        with suppress(BrokenPipeError):  # of what nobody has read
            self._stream.close()

    def write(self, data: Mapping[str, Any]) -> None:
        """Prints the document."""
        self._is_printed = True
        click.echo(_text({"schema": SCHEMA, **data}), file=self._stream)

    def fail(self, message: str, exit_code: int, problems: list[dict[str, Any]]) -> None:
        """Prints what went wrong, unless the document is out: that of a run names the errors of its trials.

        Args:
            message: What is told on stderr.
            exit_code: What the command ends with.
            problems: The mistakes of a spec, each with `path`, `message`, `file`, `line` and `column`.
        """
        if not self._is_printed:
            self.write(error_document(message, exit_code, problems))

    def _end(self, error: RlrunError) -> None:
        """Prints what the process is ended for."""
        self.fail(str(error), error.exit_code, [])


def error_document(message: str, exit_code: int, problems: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the document of an error, as `JsonDocument.fail` takes it."""
    return {"schema": SCHEMA, "error": {"message": message, "exit_code": exit_code, "problems": problems}}


def nothing_more_on_stdout() -> None:
    """Sends to stderr what this process still prints on stdout when it ends, behind its document."""
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


def print_json(data: Mapping[str, Any]) -> None:
    """Prints data as one indented JSON document on stdout; NaN and infinities, which JSON has not, become null.

    Under ``--json`` it begins with the `SCHEMA`; elsewhere JSON is all that a command prints, and is printed as it is.
    """
    context = click.get_current_context(silent=True)
    document: JsonDocument | None = None if context is None else context.meta.get(_KEY)
    if document is None:
        click.echo(_text(data))
    else:
        document.write(data)


def _text(data: Any) -> str:
    return json.dumps(_finite(data), indent=2, allow_nan=False)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
