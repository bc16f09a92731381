"""The result files of a trial: a row per iteration in result.json, progress.csv and TensorBoard's event files.

result.json is the truth: strict JSON, an object per line, in which a number that is missing or not finite is null. The
other two are made from it for those who want them.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from rlrun.checkpoint.durable import explained_full_disk, write_file
from rlrun.checkpoint.plain_json import load_json
from rlrun.trial.event_file import EventFile, tag_of

RESULT_FILE = "result.json"
CSV_FILE = "progress.csv"
DAMAGED_FILE = "result.json.damaged"
"""What result.json was before damaged rows in it were dropped or made anew."""

TAIL_BYTES = 4096
"""How much of a file's end is read at once to find its last row."""

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
    """Returns a result as plain JSON data; what is no finite number of float64, text or truth value becomes None.

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
    return [row for row in _lines(directory) if row is not None]


def read_last_row(directory: Path) -> Row | None:
    """Reads the newest row of a trial's result.json from its end, which costs the same however long the file is.

    Returns:
        The last row that is whole, or None if there is none.
    """
    try:
        file = (directory / RESULT_FILE).open("rb")
    except FileNotFoundError:
        return None
    with file:
        for line in _lines_from_the_end(file):
            try:
                row = load_json(line)
            except ValueError:  # torn, or zeros after a power cut
                continue
            if isinstance(row, dict):
                return row
    return None


def best_return(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """Returns the highest mean return that rows report, None if none does.

    Examples:
        >>> best_return([{"episode_return_mean": None}, {"episode_return_mean": 3.0}, {"episode_return_mean": -1.0}])
        3.0
    """
    return best_value(rows, RETURN)


def best_value(rows: Iterable[Mapping[str, Any]], metric: str) -> float | None:
    """Returns the highest value of a metric that rows report, None if none does.

    Rows without a value are not compared, as those of iterations without an evaluation.
    """
    return max((row[metric] for row in rows if isinstance(row.get(metric), int | float)), default=None)


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
    """

    rows: tuple[Row, ...]
    damage: tuple[str, ...]


def check_results(
    directory: Path,
    last_iteration: int,
    *,
    known: Mapping[int, Mapping[str, Any]] | None = None,
    best: tuple[int, float] | None = None,
) -> CheckedResults:
    """Reads the rows of a trial, and looks for those that are damaged, altered or gone.

    Behind the last whole row a kill or a power cut may have left anything, which is no damage.

    Args:
        directory: The trial's directory.
        last_iteration: The last iteration whose row must be there; nothing is known of later ones.
        known: Results by iteration, as the trial's checkpoints hold them.
        best: The last iteration that trial.json knows, and the best mean return until then; None where it does not say.
    """
    file = directory / RESULT_FILE
    checkpointed = {iteration: json_row(row) for iteration, row in (known or {}).items() if iteration <= last_iteration}
    rows: dict[int, Row] = {}
    broken, above, altered = [], [], []
    last_whole = 0
    for number, row in enumerate(_lines(directory), start=1):
        if row is None or type(row.get("iteration")) is not int:
            broken.append(number)
            continue
        last_whole, iteration = number, row["iteration"]
        rows[iteration] = row
        expected, value = checkpointed.get(iteration), best_return([row])
        if expected is not None and (different := _differences(row, expected)):
            rows[iteration] = expected
            altered.append(f"{file}:{number}: {', '.join(different)} is not as its checkpoint says")
        elif best is not None and iteration <= best[0] and value is not None and value > best[1]:
            rows[iteration] = {**row, RETURN: None}
            above.append((number, value))
    damage = []
    if within := _ranges([number for number in broken if number < last_whole]):
        damage.append(f"{file}:{within}: is damaged")
    damage += altered
    if best is not None and above:
        lines, highest = _ranges([number for number, _ in above]), max(value for _, value in above)
        damage.append(
            f"{file}:{lines}: {RETURN} {highest:g} is above {best[1]:g}, which trial.json knows as the best: "
            "it does not count"
        )
    taken = sorted(checkpointed.keys() - rows.keys())
    rows |= {iteration: checkpointed[iteration] for iteration in taken}
    if lost := _gaps(sorted(rows), last_iteration):
        damage.append(f"{file}: the rows of iterations {lost} are gone, and no checkpoint knows them")
    if taken:
        damage.append(f"{file}: the rows of iterations {_ranges(taken)} are gone, and checkpoints know them")
    return CheckedResults(tuple(rows[iteration] for iteration in sorted(rows)), tuple(damage))


def truncate_results(
    directory: Path,
    after_iteration: int,
    *,
    known: Mapping[int, Mapping[str, Any]] | None = None,
    best: tuple[int, float] | None = None,
) -> Truncation:
    """Cuts off the rows after an iteration from result.json and progress.csv, each of them whole or not at all.

    Rows that are damaged, altered or gone are told, and made anew where a checkpoint knows them; what stood there
    before is kept beside. Event files cannot be cut; the next one tells TensorBoard what to forget.

    Args:
        directory: The trial's directory.
        after_iteration: The last iteration to keep.
        known: As `check_results` takes it.
        best: As `check_results` takes it.
    """
    file = directory / RESULT_FILE
    raw = file.read_bytes() if file.exists() else b""
    checked = check_results(directory, after_iteration, known=known, best=best)
    kept = [row for row in checked.rows if row["iteration"] <= after_iteration]
    damage = list(checked.damage)
    if damage and known:
        damage.append("what checkpoints know is taken")
    if damage and raw:
        write_file(directory / DAMAGED_FILE, raw)
        damage.append(f"what stood there is kept in {directory / DAMAGED_FILE}")
    if kept or file.exists():
        write_file(file, b"".join(map(_json_line, kept)))
        write_file(directory / CSV_FILE, _csv_text(_columns(kept), kept).encode())
    return Truncation(len(checked.rows) - len(kept), tuple(damage))


def _lines(directory: Path) -> Iterator[Row | None]:
    """Yields what each line of a trial's result.json holds: a row, or None where it is damaged."""
    try:
        lines = (directory / RESULT_FILE).read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    for line in lines[:-1]:  # behind the last line break nothing was written to its end
        try:
            row = load_json(line)
        except ValueError:  # a power cut may leave zeros where a line was not written to the disk yet
            row = None
        yield row if isinstance(row, dict) else None


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
            if self._json is None:
                self._json = (self.directory / RESULT_FILE).open("ab", buffering=0)
            _write_all(self._json, line)
            self._write_csv(row)
            self._write_events(row)
        return row

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
            rows = read_results(self.directory)
            self._columns = _columns(rows)
            if self._csv is not None:
                self._csv.close()
            write_file(self.directory / CSV_FILE, _csv_text(self._columns, rows).encode())
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
            tag_of(name): value
            for name, value in row.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        self._events.add_scalars(step, numbers)


def _lines_from_the_end(file: io.BufferedReader) -> Iterator[bytes]:
    """Yields the lines that end in a line break, the last one first."""
    start = file.seek(0, os.SEEK_END)
    rest = b""
    is_whole = False  # what stands behind the last line break was not written to its end
    while start > 0:
        size = min(TAIL_BYTES, start)
        start = file.seek(start - size)
        rest, *lines = (file.read(size) + rest).split(b"\n")
        for line in reversed(lines):
            if is_whole:
                yield line
            is_whole = True
    if is_whole:
        yield rest


def _json_value(value: Any) -> Any:
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, Integral):  # NumPy's integers as well
        return int(value) if abs(int(value)) <= sys.float_info.max else None
    number = float(value)
    return number if math.isfinite(number) else None


def _json_line(row: Row) -> bytes:
    return json.dumps(row, allow_nan=False).encode() + b"\n"


def _columns(rows: Sequence[Row]) -> list[str]:
    """Returns every column in the order of its first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _csv_text(columns: list[str], rows: Sequence[Row], *, header: bool = True) -> str:
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
