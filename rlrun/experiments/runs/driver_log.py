"""Redirection of all output of the process and its libraries to a file, at the level of file descriptors.

Ray's raylet warnings come from C++, its workers' output from a thread, and Tune's tables from `print`; only redirecting
the file descriptors catches all of them. The terminal stays open under another descriptor.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TextIO

from typing_extensions import override

from rlrun.engine.checkpoint.durable import FULL_DISK_ERRNOS


class DriverLog:
    """Context manager that redirects this process's stdout and stderr to a file, once `send_to` is called.

    Attributes:
        terminal: Stream of the original stdout, for messages to the user.
    """

    terminal: TextIO

    def __init__(self) -> None:
        self.terminal = sys.stdout
        self._errors: TextIO = sys.stderr
        self._saved: dict[int, int] = {}
        self._streams: tuple[TextIO, TextIO] = (sys.stdout, sys.stderr)
        self._file: TextIO | None = None

    def __enter__(self) -> DriverLog:
        """Enters the context; nothing is redirected before `send_to`."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Restores the original stdout and stderr."""
        self.close()

    def send_to(self, path: Path) -> None:
        """Redirects all further output to a file, to which it is appended.

        Args:
            path: The log file; its directory must exist.
        """
        file = io.BufferedWriter(_LogFile(path, "a"))
        stream = io.TextIOWrapper(file, encoding="utf-8", errors="replace", line_buffering=True)  # `close` closes it
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
        """Restores the original stdout and stderr. Idempotent."""
        if self._file is None:
            return
        self._file.flush()
        sys.stdout, sys.stderr = self._streams
        for number, saved in self._saved.items():
            os.dup2(saved, number)
        for stream in (self.terminal, self._errors):
            if stream not in self._streams:
                stream.close()  # also closes the stream's copy of the saved descriptor
        for saved in self._saved.values():
            os.close(saved)
        self._saved = {}
        self.terminal, self._errors = self._streams
        self._file.close()
        self._file = None

    @contextmanager
    def printing_to_terminal(self) -> Iterator[None]:
        """Context manager in which `print` in this thread writes to the terminal instead of the log.

        A run calls its watchers, which may print, inside this context.
        """
        if self._file is None:
            yield
            return
        out, err = (_OneThreadsStream(stream, self._file) for stream in (self.terminal, self._errors))
        with redirect_stdout(out), redirect_stderr(err):
            yield

    def _stream_to_terminal(self, stream: TextIO) -> TextIO:
        """Stream to the original target of stdout or stderr; the stream itself if it has no file descriptor."""
        try:
            number = stream.fileno()
        except (OSError, ValueError, io.UnsupportedOperation):
            return stream
        if number not in self._saved:
            return stream
        return open(os.dup(self._saved[number]), "w", buffering=1, encoding=stream.encoding, errors=stream.errors)


class _OneThreadsStream:
    """Stream that sends the creating thread's output to the terminal, and output of other threads to the log."""

    def __init__(self, users: TextIO, log: TextIO) -> None:
        self._users = users
        self._log = log
        self._thread = threading.get_ident()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._users if threading.get_ident() == self._thread else self._log, name)


class _LogFile(io.FileIO):
    """Log file that drops output on a full disk, so that `print` neither fails nor buffers it."""

    @override
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in FULL_DISK_ERRNOS:
                raise
            return memoryview(data).nbytes
