"""Sends what a process and its libraries print into a file, at the level of file descriptors.

Ray's raylet warnings come from C++, its workers' output through a thread, Tune's boxes through `print`: nothing less
than the descriptors themselves catches all of them. The terminal stays open under a descriptor of its own.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from typing_extensions import override

from rlrun.checkpoint.durable import FULL_DISK_ERRNOS


class DriverLog:
    """Holds stdout and stderr of this process; while it is open both lead to a file.

    Attributes:
        terminal: What stdout was before, for those who still speak to the user.
    """

    terminal: TextIO

    def __init__(self) -> None:
        self.terminal = sys.stdout
        self._errors: TextIO = sys.stderr
        self._saved: dict[int, int] = {}
        self._streams: tuple[TextIO, TextIO] = (sys.stdout, sys.stderr)
        self._file: TextIO | None = None

    def __enter__(self) -> DriverLog:
        """Touches nothing yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives stdout and stderr back."""
        self.close()

    def send_to(self, path: Path) -> None:
        """Sends everything printed from now on to a file, appending.

        Args:
            path: The log file; its directory exists.
        """
        file = io.BufferedWriter(_LogFile(path, "a"))
        stream = io.TextIOWrapper(file, encoding="utf-8", errors="replace", line_buffering=True)  # closed by close
        if not self._saved:
            for plain in self._streams:
                plain.flush()
            self._saved = {number: os.dup(number) for number in (1, 2)}
            self.terminal = self._stream_to_terminal(self._streams[0])
            self._errors = self._stream_to_terminal(self._streams[1])
        for number in (1, 2):
            os.dup2(stream.fileno(), number)
        sys.stdout = sys.stderr = stream
        previous, self._file = self._file, stream
        if previous is not None:
            previous.close()

    def close(self) -> None:
        """Gives stdout and stderr back. Can be called twice."""
        if self._file is None:
            return
        self._file.flush()
        sys.stdout, sys.stderr = self._streams
        for number, saved in self._saved.items():
            os.dup2(saved, number)
        for stream in (self.terminal, self._errors):
            if stream not in self._streams:
                stream.close()  # and with it the saved descriptor
        for saved in self._saved.values():
            os.close(saved)
        self._saved = {}
        self.terminal, self._errors = self._streams
        self._file.close()
        self._file = None

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Lets `print` of this thread reach the user for a while, so that a watcher may use it."""
        if self._file is None:
            yield
            return
        out, err = (_OneThreadsStream(stream, self._file) for stream in (self.terminal, self._errors))
        with redirect_stdout(out), redirect_stderr(err):
            yield

    def _stream_to_terminal(self, stream: TextIO) -> TextIO:
        """Returns a stream to where one of the process's streams led; itself if it has no descriptor (a notebook's)."""
        try:
            number = stream.fileno()
        except (OSError, ValueError, io.UnsupportedOperation):
            return stream
        if number not in self._saved:
            return stream
        return open(os.dup(self._saved[number]), "w", buffering=1, encoding=stream.encoding, errors=stream.errors)


class _OneThreadsStream(io.TextIOBase):
    """Leads to the user what the thread that made it prints, and to the log what others do: Ray's print at any time."""

    def __init__(self, users: TextIO, log: TextIO) -> None:
        self._users = users
        self._log = log
        self._thread = threading.get_ident()

    @override
    def write(self, text: str) -> int:
        return self._stream.write(text)

    @override
    def flush(self) -> None:
        self._stream.flush()

    @override
    def fileno(self) -> int:
        return self._stream.fileno()

    @override
    def isatty(self) -> bool:
        return self._stream.isatty()

    @property
    @override
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has an attribute
        return self._stream.encoding

    @property
    def _stream(self) -> TextIO:
        return self._users if threading.get_ident() == self._thread else self._log


class _LogFile(io.FileIO):
    """Drops what a full disk does not take: those who print must neither fail for it nor keep it for later."""

    @override
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in FULL_DISK_ERRNOS:
                raise
            return memoryview(data).nbytes
