"""The result files of a trial: a row per iteration in result.json, progress.csv and TensorBoard's event files.

result.json is the truth: strict JSON, an object per line, in which a number that is missing or not finite is null. The
other two are made from it for those who want them.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from rlrun.checkpoint.durable import explained_full_disk, write_file
from rlrun.checkpoint.plain_json import load_json
from rlrun.trial.event_file import EventFile
from rlrun.trial.trial_directory import TrialRecord

RESULT_FILE = "result.json"
CSV_FILE = "progress.csv"
DAMAGED_FILE = "result.json.damaged"
"""What result.json was before damaged rows in it were dropped or made anew."""

TAIL_BYTES = 4096
"""How much of a file's end is read first to find its last row."""

LONGEST_ROW_BYTES = 50_000_000
"""No row is longer; where a file holds more without a line break, as where it is sparse, that is none."""

RETURN = "episode_return_mean"

Row = dict[str, Any]


def is_timing(name: str) -> bool:
    """Whether a metric depends on the clock and so differs between two equal runs.

    Examples:
        >>> is_timing("time/sample_s"), is_timing("env_steps_per_s"), is_timing("episode_return_mean")
        (True, True, False)
    """
    return "time" in name or "per_s" in name


def json_row(result: Mapping[str, Any]) -> Row:
    """Returns a result as plain JSON data; what is no finite number, text or truth value becomes None.

    Examples:
        >>> json_row({"a": float("nan"), "b": 1, "c": "x"})
        {'a': None, 'b': 1, 'c': 'x'}
    """
    return {name: _json_value(value) for name, value in result.items()}


def read_results(directory: Path) -> list[Row]:
    """Reads the rows of a trial's result.json; a last line that a kill has torn is left out.

    Returns:
        The rows in order; none if there is no file yet.
    """
    return list(iterate_results(directory))


def iterate_results(directory: Path) -> Iterator[Row]:
    """Yields the rows that `read_results` reads, one at a time."""
    return (row for line in _lines(directory) if (row := _row(line)) is not None)


def read_last_row(directory: Path) -> Row | None:
    """Reads the newest row of a trial's result.json from its end, which costs the same however long the file is.

    Returns:
        The last row that is whole, or None if there is none.
    """
    try:
        file = (directory / RESULT_FILE).open("rb")
    except (FileNotFoundError, IsADirectoryError):
        return None
    with file:
        return next((row for line in _lines_from_the_end(file) if (row := _row(line)) is not None), None)


def best_return(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """Returns the highest mean return that rows report, None if none does.

    Examples:
        >>> best_return([{"episode_return_mean": None}, {"episode_return_mean": 3.0}, {"episode_return_mean": -1.0}])
        3.0
    """
    return max((row[RETURN] for row in rows if isinstance(row.get(RETURN), int | float)), default=None)


@dataclass(frozen=True)
class Truncation:
    """What became of the result files when a trial went back to a checkpoint.

    Attributes:
        rows_cut: Rows of later iterations that were cut off.
        damage: What was wrong with the rows before, and what was done about it, a sentence each.
    """

    rows_cut: int = 0
    damage: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckedResults:
    """The rows of a trial, held to what is known of them besides result.json.

    Attributes:
        rows: Them, by ascending iteration. What was altered or is gone is as a checkpoint knows it.
        damage: What was wrong with them, a sentence each.
        names: The names of all metrics in them.
        size: The bytes of result.json up to the end of the last one that was asked for.
    """

    rows: tuple[Row, ...]
    damage: tuple[str, ...]
    names: tuple[str, ...]
    size: int


def check_results(
    directory: Path,
    last_iteration: int,
    *,
    known: Mapping[int, Mapping[str, Any]] | None = None,
    record: TrialRecord | None = None,
    metrics: Collection[str] | None = None,
) -> CheckedResults:
    """Reads the rows of a trial, and looks for those that are damaged, altered, doubled or gone.

    After the last whole row a kill or a power cut may have left anything, which is no damage.

    Args:
        directory: The trial's directory.
        last_iteration: The last iteration whose row must be there; nothing is known of later ones.
        known: Results by iteration, as the trial's checkpoints hold them.
        record: What trial.json knows; None where it is not to be believed.
        metrics: What is kept of the rows besides their iterations; None for all of it.
    """
    file = directory / RESULT_FILE
    checkpointed = {iteration: json_row(row) for iteration, row in (known or {}).items() if iteration <= last_iteration}
    best = None if record is None or record.best_return is None else (record.iteration, record.best_return)
    rows: dict[int, Row] = {}
    names: dict[str, None] = {}
    broken, above, altered, doubled = [], [], [], []
    last_whole = newest = size = offset = 0
    digest = _DigestOfRows(record)
    for number, line in enumerate(_lines(directory), start=1):
        digest.update(line)
        offset += len(line)
        row = _row(line)
        if row is None or type(row.get("iteration")) is not int:
            broken.append(number)
            continue
        last_whole, iteration = number, row["iteration"]
        if iteration <= newest:
            doubled.append(number)
        newest = max(newest, iteration)
        if iteration <= last_iteration:
            size = offset
        expected, value = checkpointed.get(iteration), best_return([row])
        if expected is not None and (different := _differences(row, expected)):
            row = expected
            altered.append(f"{file}:{number}: {', '.join(different)} is not as its checkpoint says")
        elif best is not None and iteration <= best[0] and value is not None and value > best[1]:
            row = {**row, RETURN: None}
            above.append((number, value))
        if not row.keys() <= names.keys():
            names |= dict.fromkeys(row)
        rows[iteration] = _reduced(row, metrics)
    damage = []
    if within := _ranges([number for number in broken if number < last_whole]):
        damage.append(f"{file}:{within}: is damaged")
    if doubled:
        damage.append(f"{file}:{_ranges(doubled)}: is there twice, or not in its place")
    damage += altered
    if best is not None and above:
        lines, highest = _ranges([number for number, _ in above]), max(value for _, value in above)
        damage.append(
            f"{file}:{lines}: {RETURN} {highest:g} is above {best[1]:g}, which trial.json knows as the best: "
            "it does not count"
        )
    taken = sorted(checkpointed.keys() - rows.keys())
    rows |= {iteration: _reduced(checkpointed[iteration], metrics) for iteration in taken}
    if lost := _gaps(sorted(rows), last_iteration):
        damage.append(f"{file}: the rows of iterations {lost} are gone, and no checkpoint knows them")
    if taken:
        damage.append(f"{file}: the rows of iterations {_ranges(taken)} are gone, and checkpoints know them")
    if record is not None and record.iteration <= last_iteration and digest.is_wrong and not damage:
        damage.append(f"{file}: a row up to iteration {record.iteration} was altered: trial.json knows another sha256")
    return CheckedResults(tuple(rows[iteration] for iteration in sorted(rows)), tuple(damage), tuple(names), size)


def truncate_results(
    directory: Path,
    after_iteration: int,
    *,
    known: Mapping[int, Mapping[str, Any]] | None = None,
    record: TrialRecord | None = None,
) -> Truncation:
    """Cuts off the rows after an iteration from result.json and progress.csv, each of them whole or not at all.

    Rows that are damaged, altered or gone are told, and made anew where a checkpoint knows them; what stood there
    before is kept beside. Event files cannot be cut; the next one tells TensorBoard what to forget.

    Args:
        directory: The trial's directory.
        after_iteration: The last iteration to keep.
        known: As `check_results` takes it.
        record: As `check_results` takes it.
    """
    file = directory / RESULT_FILE
    checked = check_results(directory, after_iteration, known=known, record=record, metrics=())
    rows_cut = sum(row["iteration"] > after_iteration for row in checked.rows)
    if checked.damage:
        return Truncation(rows_cut, _mend(directory, after_iteration, known, record))
    if file.exists() and file.stat().st_size > checked.size:
        with file.open("rb") as whole:
            write_file(file, whole.read(checked.size))
        _make_csv(directory)
    return Truncation(rows_cut)


def _mend(
    directory: Path,
    after_iteration: int,
    known: Mapping[int, Mapping[str, Any]] | None,
    record: TrialRecord | None,
) -> tuple[str, ...]:
    """Writes rows anew as far as they are known, up to an iteration; what stood there is kept beside.

    Returns:
        What was wrong with them, and what was done about it, a sentence each.
    """
    file = directory / RESULT_FILE
    checked = check_results(directory, after_iteration, known=known, record=record)
    kept = [row for row in checked.rows if row["iteration"] <= after_iteration]
    damage = [*checked.damage, *(["what checkpoints know is taken"] if known else [])]
    if file.exists():
        write_file(directory / DAMAGED_FILE, file.read_bytes())
        damage.append(f"what stood there is kept in {directory / DAMAGED_FILE}")
    if kept or file.exists():
        write_file(file, b"".join(map(_json_line, kept)))
        _make_csv(directory)
    return tuple(damage)


class _DigestOfRows:
    """The digest of the rows that trial.json knows."""

    def __init__(self, record: TrialRecord | None) -> None:
        self._left = 0 if record is None else record.results_bytes
        self._expected = "" if record is None else record.results_sha256
        self._digest = hashlib.sha256()

    def update(self, line: bytes) -> None:
        """Takes the next line."""
        if self._left:
            self._digest.update(line[: self._left])
            self._left -= min(self._left, len(line))

    @property
    def is_wrong(self) -> bool:
        """Whether the lines so far are others than trial.json knows; an earlier version noted no digest."""
        return self._expected != "" and (self._left > 0 or self._digest.hexdigest() != self._expected)


def _reduced(row: Row, metrics: Collection[str] | None) -> Row:
    """Returns what is kept of a row."""
    if metrics is None:
        return row
    return {"iteration": row["iteration"], **{name: row[name] for name in metrics if name in row}}


def _lines(directory: Path) -> Iterator[bytes]:
    """Yields the lines of a trial's result.json, until one is absurdly long or has no end."""
    try:
        file = (directory / RESULT_FILE).open("rb")
    except FileNotFoundError:
        return
    with file:
        while (line := file.readline(LONGEST_ROW_BYTES)).endswith(b"\n"):
            yield line


def _row(line: bytes) -> Row | None:
    """Returns the row in a line, None where it is damaged."""
    try:
        row = load_json(line)
    except ValueError:  # a power cut may leave zeros where a line was not written to the disk yet
        return None
    return row if isinstance(row, dict) else None


def _gaps(present: Sequence[int], last: int) -> str:
    """Returns which numbers from 1 to the last are not among ascending ones, in few words.

    Examples:
        >>> _gaps([1, 4, 9], 7)
        '2 to 3, 5 to 7'
    """
    edges = [0, *(number for number in present if 0 < number <= last), last + 1]
    gaps = [(before + 1, behind - 1) for before, behind in itertools.pairwise(edges) if behind - before > 1]
    return ", ".join(f"{first} to {end}" if first < end else f"{first}" for first, end in gaps)


def _differences(row: Row, checkpointed: Row) -> list[str]:
    """Returns the metrics of a checkpoint's result that a row has otherwise."""
    return [name for name, value in checkpointed.items() if row.get(name) != value]


def _ranges(numbers: Sequence[int]) -> str:
    """Returns ascending numbers in few words.

    Examples:
        >>> _ranges([1, 2, 3, 7])
        '1 to 3, 7'
    """
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ", ".join(f"{group[0]} to {group[-1]}" if len(group) > 1 else f"{group[0]}" for group in groups)


class ResultWriter:
    """Appends rows to the result files of a trial; each row is with the operating system when `write` returns."""

    def __init__(self, directory: Path, hyperparameters: Mapping[str, Any] | None = None) -> None:
        """Goes on behind the rows that are there; the files are made with the first row.

        Args:
            directory: The trial's directory, which exists.
            hyperparameters: What TensorBoard's HPARAMS tab tells the trial apart by, as data by name. The trials of a
                run in which they are equal share a line there.
        """
        self.directory = directory
        self._hyperparameters = hyperparameters
        self._json: io.FileIO | None = None
        self._csv: io.FileIO | None = None
        self._columns: list[str] = []
        self._events: EventFile | None = None
        self._digest: hashlib._Hash | None = None
        self._size = 0

    def write(self, result: Mapping[str, Any]) -> Row:
        """Appends a row.

        Args:
            result: Metrics by name, with `iteration` and `env_steps` among them.

        Returns:
            The row as it stands in result.json.

        Raises:
            OutOfResources: If the disk is full.
        """
        row = json_row(result)
        line = _json_line(row)
        with explained_full_disk(self.directory / RESULT_FILE, lambda: 3 * len(line)):
            digest = self._begun_digest()
            if self._json is None:
                self._json = (self.directory / RESULT_FILE).open("ab", buffering=0)
            _write_all(self._json, line)
            digest.update(line)
            self._size += len(line)
            self._write_csv(row)
            self._write_events(row)
        return row

    def written(self) -> tuple[int, str]:
        """Returns how many bytes of result.json are written, and their sha256."""
        digest = self._begun_digest()
        return self._size, digest.hexdigest()

    def _begun_digest(self) -> hashlib._Hash:
        """Returns the digest of result.json, which begins with the rows that were there before."""
        if self._digest is None:
            digest = hashlib.sha256()
            with suppress(FileNotFoundError), (self.directory / RESULT_FILE).open("rb") as file:
                hashlib.file_digest(file, lambda: digest)
                self._size = file.tell()
            self._digest = digest
        return self._digest

    def sync(self) -> None:
        """Makes the rows of result.json last through a power cut; called before a checkpoint that relies on them."""
        if self._json is not None:
            with explained_full_disk(self.directory / RESULT_FILE, lambda: 0):
                os.fsync(self._json.fileno())

    def close(self) -> None:
        """Closes the files."""
        for file in (self._json, self._csv, self._events):
            if file is not None:
                file.close()
        self._json = self._csv = self._events = None

    def _write_csv(self, row: Row) -> None:
        """Appends to progress.csv; the first row, and one with new columns, write it afresh from result.json."""
        if self._csv is None or not row.keys() <= set(self._columns):
            if self._csv is not None:
                self._csv.close()
            self._columns = _make_csv(self.directory)
            self._csv = (self.directory / CSV_FILE).open("ab", buffering=0)
        else:
            _write_all(self._csv, _csv_text(self._columns, [row], header=False).encode())

    def _write_events(self, row: Row) -> None:
        step = int(row["env_steps"])
        if self._events is None:
            self._events = EventFile(self.directory, first_step=step)
            if self._hyperparameters is not None:
                told = ", ".join(f"{name}={value}" for name, value in self._hyperparameters.items())
                group = f"{self.directory.absolute().parent.name}: {told}"
                self._events.add_hyperparameters(step, self._hyperparameters, group)
        numbers = {
            name: value for name, value in row.items() if isinstance(value, int | float) and not isinstance(value, bool)
        }
        self._events.add_scalars(step, numbers)


def _lines_from_the_end(file: io.BufferedReader) -> Iterator[bytes]:
    """Yields the lines that end in a line break, the last one first, until one is absurdly long."""
    start = file.seek(0, os.SEEK_END)
    rest = b""
    is_whole = False  # what stands behind the last line break was not written to its end
    while start > 0 and len(rest) < LONGEST_ROW_BYTES:
        size = min(max(TAIL_BYTES, len(rest)), start)  # twice as much each time, if no line break comes
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
    if isinstance(value, Integral):  # NumPy's integers as well
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else None


def _json_line(row: Row) -> bytes:
    return json.dumps(row, allow_nan=False).encode() + b"\n"


def _make_csv(directory: Path) -> list[str]:
    """Makes progress.csv from result.json.

    Returns:
        Its columns, in the order of their first appearance.
    """
    columns = list(dict.fromkeys(name for row in iterate_results(directory) for name in row))
    write_file(directory / CSV_FILE, _csv_text(columns, iterate_results(directory)).encode())
    return columns


def _csv_text(columns: list[str], rows: Iterable[Row], *, header: bool = True) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _write_all(file: io.FileIO, data: bytes) -> None:
    """Writes without a buffer, which may take less than all of it at once."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
