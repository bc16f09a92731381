"""JSON that a command prints under ``--json`` or ``--progress json``, separate from all other output."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, TextIO

import click

from rlrun.cli.tables import echo
from rlrun.engine.messages.errors import RlrunError
from rlrun.engine.processes.process_end import listeners
from rlrun.report.plain_json import plain

SCHEMA = 1
"""Version of the JSON documents' format, stored under their first key, `schema`."""

_KEY = "rlrun.json_document"


JsonForm = Literal["document", "lines"]
"""Form of a command's JSON output: one indented document, or one object per line."""


def json_form(words: Sequence[str]) -> JsonForm | None:
    """Form of JSON that a command line requests; None for text output.

    Examples:
        >>> json_form(["train", "a.yaml", "--progress", "json"]), json_form(["runs", "--json"]), json_form(["runs"])
        ('lines', 'document', None)
    """
    if "--progress=json" in words or ("--progress", "json") in itertools.pairwise(words):
        return "lines"
    return "document" if "--json" in words else None


class JsonDocument:
    """Context manager that reserves stdout for one JSON document, and sends other output to stderr.

    The file descriptor is redirected as well, since C code does not print through Python. An in-memory stream, which
    has no descriptor, is only replaced in Python.

    Args:
        form: "lines" for event lines followed by one line of JSON; "document" for a single indented document.
    """

    def __init__(self, form: JsonForm = "document") -> None:
        self._form = form
        self._plain: TextIO = sys.stdout
        self._stream: TextIO = sys.stdout
        self._descriptor: int | None = None
        self._is_printed = False

    def __enter__(self) -> JsonDocument:
        """Redirects stdout to stderr, and makes `print_json` write this document."""
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
        """Restores stdout."""
        listeners.remove(self._end)
        sys.stdout = self._plain
        if self._descriptor is None:
            return
        os.dup2(self._stream.fileno(), self._descriptor)
        with suppress(BrokenPipeError):
            self._stream.close()

    def write(self, data: Mapping[str, Any]) -> None:
        """Prints data and the format's version as this JSON document; in the form "lines", as the last line."""
        self._is_printed = True
        kind = {"event": "error" if "error" in data else "result"} if self._form == "lines" else {}
        click.echo(_text({"schema": SCHEMA, **kind, **data}, self._form), file=self._stream)

    def write_event(self, data: Mapping[str, Any]) -> None:
        """Prints an event as a line of JSON, before the document."""
        with suppress(BrokenPipeError):  # a closed pipe must not end a training run
            click.echo(_text({"schema": SCHEMA, **data}, "lines"), file=self._stream)

    def fail(self, message: str, exit_code: int, problems: list[dict[str, Any]]) -> None:
        """Prints an error as this JSON document, unless the document was already printed.

        Args:
            message: The message on stderr.
            exit_code: Exit code of the command.
            problems: The mistakes of a spec, each with `path`, `message`, `file`, `line` and `column`.
        """
        if not self._is_printed:
            self.write(error_document(message, exit_code, problems))

    def _end(self, error: RlrunError) -> None:
        """Prints an error that terminates the process as this JSON document."""
        self.fail(str(error), error.exit_code, [])


def error_document(message: str, exit_code: int, problems: list[dict[str, Any]]) -> dict[str, Any]:
    """Creates the JSON data that reports a command's error; takes the arguments of `JsonDocument.fail`."""
    return {"schema": SCHEMA, "error": {"message": message, "exit_code": exit_code, "problems": problems}}


def redirect_later_stdout() -> None:
    """Redirects stdout to stderr. Call it after printing the document, so that no other output follows."""
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


def print_json(data: Mapping[str, Any]) -> None:
    """Prints data as one indented JSON document on stdout; NaN and infinities, which JSON does not have, become null.

    Under ``--json``, the version of the document's format is added under the key `schema`. Commands that can print
    only JSON print the data unchanged.
    """
    if (document := _document()) is None:
        click.echo(_text(data))
    else:
        document.write(data)


def print_event(data: Mapping[str, Any]) -> None:
    """Prints an event as a line of JSON, under ``--progress json``."""
    if (document := _document()) is not None:
        document.write_event(data)


def print_result(data: Mapping[str, Any], text: str) -> None:
    """Prints the result of a command.

    Args:
        data: The document under ``--json``.
        text: Text to print without ``--json``.
    """
    if wants_json():
        print_json(data)
    else:
        echo(text)


def wants_json() -> bool:
    """Whether the command was given ``--json`` or ``--progress json``, so that `print_result` prints data."""
    return _document() is not None


def _document() -> JsonDocument | None:
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_KEY)


def _text(data: Any, form: JsonForm = "document") -> str:
    return json.dumps(plain(data), indent=2 if form == "document" else None, allow_nan=False)
