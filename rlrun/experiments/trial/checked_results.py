"""Integrity checks of a trial's result rows against trial.json and checkpoints, and truncation of rows on resume."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlrun.engine.checkpoint.durable import write_file
from rlrun.experiments.trial.results import (
    RESULT_FILE,
    RETURN,
    Row,
    best_value,
    json_line,
    json_row,
    lines_of,
    make_csv,
    row_in,
)
from rlrun.experiments.trial.trial_directory import TrialRecord

DAMAGED_FILE = "result.json.damaged"
"""Backup of result.json from before damaged rows were removed or restored."""


@dataclass(frozen=True)
class Truncation:
    """Changes to the result files when a trial is restored from a checkpoint.

    Attributes:
        rows_cut: Rows of later iterations that were removed.
        damage: Sentences that describe damage to earlier rows, and how it was repaired.
    """

    rows_cut: int = 0
    damage: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckedResults:
    """Result rows of a trial, checked against trial.json and checkpoints.

    Attributes:
        rows: The rows, in ascending order of iteration; altered or missing rows are taken from checkpoints if possible.
        damage: Sentences that describe the damage found.
        names: Names of all metrics in the rows.
        size: Length of result.json in bytes, up to the end of the last requested row.
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
    """Loads and validates the result rows of a trial: finds damaged, altered, duplicated or missing rows.

    An incomplete last row, left by a kill or power cut, does not count as damage.

    Args:
        directory: The trial's directory.
        last_iteration: The last iteration whose row must exist.
        known: Results by iteration from the trial's checkpoints.
        record: The content of trial.json; None if trial.json cannot be trusted.
        metrics: Metrics to return in addition to the iteration; None for all.
    """
    file = directory / RESULT_FILE
    checkpointed = {iteration: json_row(row) for iteration, row in (known or {}).items() if iteration <= last_iteration}
    checks = _RowChecks(file, checkpointed, record)
    rows: dict[int, Row] = {}
    names: dict[str, None] = {}
    size = offset = 0
    for number, line in enumerate(lines_of(directory), start=1):
        offset += len(line)
        row = checks.checked(number, line)
        if row is None:
            continue
        if row["iteration"] <= last_iteration:
            size = offset
        if not row.keys() <= names.keys():
            names |= dict.fromkeys(row)
        rows[row["iteration"]] = _reduced(row, metrics)
    taken = sorted(checkpointed.keys() - rows.keys())
    rows |= {iteration: _reduced(checkpointed[iteration], metrics) for iteration in taken}
    damage = [*checks.damage(), *_missing(file, _gaps(sorted(rows), last_iteration), taken)]
    if rows and not damage and record is not None and record.iteration <= last_iteration and _is_altered(file, record):
        damage.append(
            f"{file}: a row up to iteration {record.iteration} was altered: the sha256 differs from trial.json"
        )
    return CheckedResults(tuple(rows[iteration] for iteration in sorted(rows)), tuple(damage), tuple(names), size)


class _RowChecks:
    """Checks of the rows of a result.json, line by line, against trial.json and checkpoints."""

    def __init__(self, file: Path, checkpointed: Mapping[int, Row], record: TrialRecord | None) -> None:
        """Starts before the first line.

        Args:
            file: Path of the result.json, for messages.
            checkpointed: Rows by iteration from the trial's checkpoints.
            record: The content of trial.json; None if trial.json cannot be trusted.
        """
        self._file = file
        self._checkpointed = checkpointed
        self._best = None if record is None or record.best_return is None else (record.iteration, record.best_return)
        self._broken: list[int] = []
        self._doubled: list[int] = []
        self._altered: list[str] = []
        self._above: list[tuple[int, float]] = []
        self._last_whole = self._newest = 0

    def checked(self, number: int, line: bytes) -> Row | None:
        """Parses and checks a line; returns its row without altered values, or None for a damaged line."""
        row = row_in(line)
        if row is None or type(row.get("iteration")) is not int:
            self._broken.append(number)
            return None
        self._last_whole = number
        if row["iteration"] <= self._newest:
            self._doubled.append(number)
        self._newest = max(self._newest, row["iteration"])
        return self._unaltered(number, row)

    def _unaltered(self, number: int, row: Row) -> Row:
        """Returns a row, or its checkpoint's row if they differ, without a return above the best in trial.json."""
        expected = self._checkpointed.get(row["iteration"])
        if expected is not None and (different := _differences(row, expected)):
            self._altered.append(f"{self._file}:{number}: {', '.join(different)} differs from its checkpoint")
            return expected
        value = best_value([row], RETURN)
        if self._best is not None and value is not None and row["iteration"] <= self._best[0] and value > self._best[1]:
            self._above.append((number, value))
            return {**row, RETURN: None}
        return row

    def damage(self) -> list[str]:
        """Damage in the lines so far, one sentence each; an incomplete last line does not count."""
        damage = []
        if within := _ranges([number for number in self._broken if number < self._last_whole]):
            damage.append(f"{self._file}:{within}: damaged")
        if self._doubled:
            damage.append(f"{self._file}:{_ranges(self._doubled)}: duplicate or out of order")
        damage += self._altered
        if self._best is not None and self._above:
            lines, highest = _ranges([number for number, _ in self._above]), max(value for _, value in self._above)
            damage.append(
                f"{self._file}:{lines}: ignoring {RETURN} {highest:g}, which exceeds {self._best[1]:g}, the "
                "best value in trial.json"
            )
        return damage


def truncate_results(
    directory: Path,
    after_iteration: int,
    *,
    known: Mapping[int, Mapping[str, Any]] | None = None,
    record: TrialRecord | None = None,
) -> Truncation:
    """Truncates result.json after an iteration, and rewrites progress.csv from it; each file is replaced atomically.

    Rows that are damaged, altered or missing are reported, and restored from checkpoints where possible; a copy of the
    original file is kept. Event files are not truncated; instead, the next event file makes TensorBoard ignore the
    removed steps.

    Args:
        directory: The trial's directory.
        after_iteration: The last iteration to keep.
        known: Results by iteration from the trial's checkpoints.
        record: Content of trial.json; None if trial.json cannot be trusted.
    """
    file = directory / RESULT_FILE
    checked = check_results(directory, after_iteration, known=known, record=record, metrics=())
    rows_cut = sum(row["iteration"] > after_iteration for row in checked.rows)
    if checked.damage:
        return Truncation(rows_cut, _repair(directory, after_iteration, known, record))
    if file.exists():
        if file.stat().st_size > checked.size:
            with file.open("rb") as whole:
                write_file(file, whole.read(checked.size))
        make_csv(directory)  # a kill or power cut may leave the CSV file without its last rows, or with zeros
    return Truncation(rows_cut)


def _repair(
    directory: Path,
    after_iteration: int,
    known: Mapping[int, Mapping[str, Any]] | None,
    record: TrialRecord | None,
) -> tuple[str, ...]:
    """Repairs damaged rows up to an iteration, and keeps a backup of the former result.json.

    Returns:
        Damage and repair, one sentence each.
    """
    file = directory / RESULT_FILE
    checked = check_results(directory, after_iteration, known=known, record=record)
    kept = [row for row in checked.rows if row["iteration"] <= after_iteration]
    damage = [*checked.damage, *(["restored results from checkpoints"] if known else [])]
    if file.exists():
        write_file(directory / DAMAGED_FILE, file.read_bytes())
        damage.append(f"the damaged file is kept as {directory / DAMAGED_FILE}")
    if kept or file.exists():
        write_file(file, b"".join(map(json_line, kept)))
        make_csv(directory)
    return tuple(damage)


def _missing(file: Path, lost: str, taken: Sequence[int]) -> Iterator[str]:
    """Yields a sentence on rows that are lost, and one on rows restored from checkpoints."""
    if lost:
        which = f"row of iteration {lost} is" if lost.isdigit() else f"rows of iterations {lost} are"
        yield f"{file}: the {which} missing and not in any checkpoint"
    if taken:
        which = f"row of iteration {taken[0]} was" if len(taken) == 1 else f"rows of iterations {_ranges(taken)} were"
        yield f"{file}: the {which} missing and restored from checkpoints"


def _is_altered(file: Path, record: TrialRecord) -> bool:
    """Whether the first rows fail the digest check against trial.json."""
    with file.open("rb") as rows:
        digest = hashlib.sha256(rows.read(record.results_bytes)).hexdigest()
    return record.results_sha256 not in ("", digest)


def _reduced(row: Row, metrics: Collection[str] | None) -> Row:
    """Projection of a row to the iteration and the given metrics."""
    if metrics is None:
        return row
    return {"iteration": row["iteration"], **{name: row[name] for name in metrics if name in row}}


def _gaps(present: Sequence[int], last: int) -> str:
    """Numbers from 1 to `last` that are missing in an ascending sequence, as text ranges.

    Examples:
        >>> _gaps([1, 4, 9], 7)
        '2 to 3, 5 to 7'
    """
    edges = [0, *(number for number in present if 0 < number <= last), last + 1]
    gaps = [(before + 1, after - 1) for before, after in itertools.pairwise(edges) if after - before > 1]
    return ", ".join(f"{first} to {end}" if first < end else f"{first}" for first, end in gaps)


def _differences(row: Row, checkpointed: Row) -> list[str]:
    """Names of the metrics in which a row differs from the result in a checkpoint."""
    return [name for name, value in checkpointed.items() if row.get(name) != value]


def _ranges(numbers: Sequence[int]) -> str:
    """Formats an ascending sequence of numbers as text ranges.

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
