"""Result files of a trial: one row per iteration in result.json, progress.csv and TensorBoard event files.

result.json is authoritative: strict JSON, one object per line, in which missing and non-finite numbers are null. The
other two files are derived from it, and contain at most about one row per second of training.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from numbers import Integral
from pathlib import Path
from typing import Any

from rlrun.engine.checkpoint.durable import explained_full_disk, write_file
from rlrun.engine.checkpoint.plain_json import load_json
from rlrun.experiments.trial.event_file import EventFile, tag_of

RESULT_FILE = "result.json"
CSV_FILE = "progress.csv"
TAIL_BYTES = 4096
"""Size in bytes of the first block read from a file's end to find the last row."""

LONGEST_ROW_BYTES = 50_000_000
"""Maximum length of a row; a longer line, as in a sparse file, is not parsed."""

SECONDS_BETWEEN_ROWS = 1.0
"""Seconds of training, by `time_total_s`, within which progress.csv and event files have one row."""

RETURN = "episode_return_mean"

Row = dict[str, Any]


def is_timing(name: str) -> bool:
    """Whether a metric is a timing, which differs between otherwise identical runs.

    Examples:
        >>> is_timing("time/sample_s"), is_timing("env_steps_per_s"), is_timing("episode_return_mean")
        (True, True, False)
    """
    return "time" in name or "per_s" in name


def json_row(result: Mapping[str, Any]) -> Row:
    """Converts a result row to JSON data; values other than finite numbers, strings and booleans become None.

    Examples:
        >>> json_row({"a": float("nan"), "b": 1, "c": "x"})
        {'a': None, 'b': 1, 'c': 'x'}
    """
    return {name: _json_value(value) for name, value in result.items()}


def read_results(directory: Path) -> list[Row]:
    """Loads the rows of a trial's result.json, except a last line truncated by a kill.

    Returns:
        The rows in order; [] if result.json does not exist yet.
    """
    return list(iterate_results(directory))


def iterate_results(directory: Path) -> Iterator[Row]:
    """Streaming variant of `read_results`: yields one row of result.json at a time."""
    return (row for line in lines_of(directory) if (row := row_in(line)) is not None)


def read_last_row(directory: Path) -> Row | None:
    """Loads the newest row of a trial's result.json, in time independent of the file's length.

    Returns:
        The last complete row, or None if there is none.
    """
    try:
        file = (directory / RESULT_FILE).open("rb")
    except (FileNotFoundError, IsADirectoryError):
        return None
    with file:
        return next((row for line in _lines_from_the_end(file) if (row := row_in(line)) is not None), None)


def best_value(rows: Iterable[Mapping[str, Any]], metric: str) -> float | None:
    """Maximum of a metric over result rows; None if no row has a value for the metric.

    Rows without a value, such as those for iterations without an evaluation, are skipped.

    Examples:
        >>> best_value([{"score": None}, {"score": 3.0}, {"score": -1.0}, {}], "score")
        3.0
    """
    return max((row[metric] for row in rows if isinstance(row.get(metric), int | float)), default=None)


def lines_of(directory: Path) -> Iterator[bytes]:
    """Yields the complete lines of a trial's result.json, until a line is too long or incomplete."""
    try:
        file = (directory / RESULT_FILE).open("rb")
    except FileNotFoundError:
        return
    with file:
        while (line := file.readline(LONGEST_ROW_BYTES)).endswith(b"\n"):
            yield line


def row_in(line: bytes) -> Row | None:
    """Parses a line of result.json to a row; None for a damaged line."""
    try:
        row = load_json(line)
    except ValueError:  # a power cut may leave zeros in place of a line
        return None
    return row if isinstance(row, dict) else None


class ResultWriter:
    """Writer of a trial's result files; rows are flushed to the operating system before `write` returns."""

    def __init__(self, directory: Path, hyperparameters: Mapping[str, Any] | None = None) -> None:
        """Opens the result files for appending after existing rows; new files are created with the first row.

        Args:
            directory: The trial's directory, which exists.
            hyperparameters: Hyperparameters for TensorBoard's HPARAMS tab, by name. Trials of a run with equal
                hyperparameters share a line there.
        """
        self.directory = directory
        self._hyperparameters = hyperparameters
        self._json: io.FileIO | None = None
        self._csv: io.FileIO | None = None
        self._columns: list[str] = []
        self._events: EventFile | None = None
        self._newest = self._derived = Row()
        self._digest: hashlib._Hash | None = None
        self._size = 0

    def write(self, result: Mapping[str, Any]) -> Row:
        """Appends a result row to result.json, and also to progress.csv and TensorBoard if it is due there (`is_due`).

        Args:
            result: Metrics by name, including `iteration` and `env_steps`.

        Returns:
            The row as written to result.json.

        Raises:
            OutOfResources: The disk is full.
        """
        row = json_row(result)
        line = json_line(row)
        with explained_full_disk(self.directory / RESULT_FILE, lambda: 3 * len(line)):
            digest = self._begun_digest()
            if self._json is None:
                self._json = (self.directory / RESULT_FILE).open("ab", buffering=0)
            _write_all(self._json, line)
            digest.update(line)
            self._size += len(line)
            self._newest = row
            if is_due(row, self._derived):
                self._write_derived()
        return row

    def written(self) -> tuple[int, str]:
        """Length in bytes and SHA-256 digest of result.json as written so far."""
        digest = self._begun_digest()
        return self._size, digest.hexdigest()

    def _begun_digest(self) -> hashlib._Hash:
        """Running SHA-256 digest of result.json, initialized with the existing rows."""
        if self._digest is None:
            digest = hashlib.sha256()
            with suppress(FileNotFoundError), (self.directory / RESULT_FILE).open("rb") as file:
                hashlib.file_digest(file, lambda: digest)
                self._size = file.tell()
            self._digest = digest
        return self._digest

    def sync(self) -> None:
        """Flushes result.json to disk (fsync), before a checkpoint that requires its rows."""
        if self._json is not None:
            with explained_full_disk(self.directory / RESULT_FILE, lambda: 0):
                os.fsync(self._json.fileno())

    def complete(self) -> None:
        """Writes the last row to progress.csv and TensorBoard, which get only some rows, and syncs progress.csv."""
        with suppress(OSError):  # for example, the disk is full; result.json has the row
            if self._newest is not self._derived:
                self._write_derived()
            if self._csv is not None:
                os.fsync(self._csv.fileno())

    def close(self) -> None:
        """Completes the derived files, and closes all result files."""
        self.complete()
        for file in (self._json, self._csv, self._events):
            if file is not None:
                file.close()
        self._json = self._csv = self._events = None

    def _write_derived(self) -> None:
        """Appends the newest row to progress.csv and to the event file."""
        self._write_csv(self._newest)
        self._write_events(self._newest)
        self._derived = self._newest

    def _write_csv(self, row: Row) -> None:
        """Appends a row to progress.csv; the first row and rows with new columns rewrite the file from result.json."""
        if self._csv is None or not row.keys() <= set(self._columns):
            if self._csv is not None:
                self._csv.close()
            self._columns = make_csv(self.directory)
            self._csv = (self.directory / CSV_FILE).open("ab", buffering=0)
        else:
            _write_all(self._csv, _csv_text(self._columns, [row], header=False).encode())

    def _write_events(self, row: Row) -> None:
        step = int(row["env_steps"])
        if self._events is None:
            self._events = EventFile(self.directory, first_step=step)
            if self._hyperparameters is not None:
                written = ", ".join(f"{name}={value}" for name, value in self._hyperparameters.items())
                group = f"{self.directory.absolute().parent.name}: {written}"
                self._events.add_hyperparameters(step, self._hyperparameters, group)
        numbers = {
            tag_of(name): value
            for name, value in row.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        self._events.add_scalars(step, numbers)


def _lines_from_the_end(file: io.BufferedReader) -> Iterator[bytes]:
    """Yields complete lines of a file in reverse order, until a line is too long."""
    start = file.seek(0, os.SEEK_END)
    rest = b""
    is_whole = False  # text after the last line break is an unfinished line
    while start > 0 and len(rest) < LONGEST_ROW_BYTES:
        size = min(max(TAIL_BYTES, len(rest)), start)  # doubled each time until a line break is found
        start = file.seek(start - size)
        rest, *lines = (file.read(size) + rest).split(b"\n")
        for line in reversed(lines):
            if is_whole:
                yield line
            is_whole = True
    if is_whole and start == 0:
        yield rest


def _json_value(value: Any) -> Any:
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, Integral):  # NumPy's integers too
        return int(value) if abs(int(value)) <= sys.float_info.max else None
    number = float(value)
    return number if math.isfinite(number) else None


def json_line(row: Row) -> bytes:
    """Serializes a row to a line of result.json."""
    return json.dumps(row, allow_nan=False).encode() + b"\n"


def is_due(row: Row, last: Row) -> bool:
    """Whether a row is due in progress.csv and TensorBoard: one per second of training, and each row with a new metric.

    Examples:
        >>> last = {"time_total_s": 5.0}
        >>> [is_due({"time_total_s": now}, last) for now in (5.9, 6.0, 1.0)]
        [False, True, True]
        >>> is_due({"time_total_s": 5.9, "evaluation/episode_return_mean": 1.0}, last)
        True
    """
    now, then = row.get("time_total_s"), last.get("time_total_s")
    return not row.keys() <= last.keys() or now is None or then is None or not 0 <= now - then < SECONDS_BETWEEN_ROWS


def thinned(rows: Iterable[Row]) -> Iterator[Row]:
    """Yields the rows that progress.csv and TensorBoard contain: those for which `is_due` holds, and the last one."""
    row = last = Row()
    for row in rows:
        if is_due(row, last):
            last = row
            yield row
    if row is not last:
        yield row


def make_csv(directory: Path) -> list[str]:
    """Rewrites progress.csv from result.json.

    Returns:
        Columns of progress.csv, in the order of first appearance.
    """
    columns = list(dict.fromkeys(name for row in iterate_results(directory) for name in row))
    write_file(directory / CSV_FILE, _csv_text(columns, thinned(iterate_results(directory))).encode())
    return columns


def _csv_text(columns: list[str], rows: Iterable[Row], *, header: bool = True) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _write_all(file: io.FileIO, data: bytes) -> None:
    """Writes all data to an unbuffered file, with repeated calls after partial writes."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
