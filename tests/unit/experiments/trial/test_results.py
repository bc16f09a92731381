import csv
import hashlib
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlrun.experiments.trial import results
from rlrun.experiments.trial.checked_results import Truncation, check_results, truncate_results
from rlrun.experiments.trial.results import (
    RETURN,
    TAIL_BYTES,
    ResultWriter,
    best_value,
    is_timing,
    json_row,
    read_last_row,
    read_results,
)
from rlrun.experiments.trial.trial_directory import TrialRecord


def row(iteration: int, **more: Any) -> dict[str, Any]:
    return {"iteration": iteration, "env_steps": 100 * iteration, "episode_return_mean": iteration / 2, **more}


def write(directory: Path, *rows: dict[str, Any]) -> None:
    writer = ResultWriter(directory)
    for each in rows:
        writer.write(each)
    writer.close()


def table(directory: Path) -> list[dict[str, str]]:
    with (directory / "progress.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_result_rows_are_read_back_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    write(tmp_path, row(1), row(2))
    assert read_results(tmp_path) == [row(1), row(2)]


def test_a_directory_without_results_has_no_rows(tmp_path: Path) -> None:
    assert read_results(tmp_path) == []


def test_a_number_that_is_not_finite_is_null_in_result_json_and_empty_in_progress_csv(tmp_path: Path) -> None:
    write(tmp_path, row(1, a=float("nan"), b=float("inf"), c=float("-inf"), d=None))
    text = (tmp_path / "result.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["a"] is None
    assert text.count("null") == 4
    assert table(tmp_path)[0]["b"] == ""


def test_numbers_of_numpy_become_plain_numbers() -> None:
    plain = json_row({"i": np.int64(3), "f": np.float32(0.5), "t": True, "n": np.float64("nan"), "s": "x"})
    assert plain == {"i": 3, "f": 0.5, "t": True, "n": None, "s": "x"}
    assert [type(value) for value in plain.values()] == [int, float, bool, type(None), str]


def test_a_whole_number_beyond_the_range_of_float64_is_written_as_null() -> None:
    assert json_row({"a": 10**400, "b": -(10**5000), "c": 10**300}) == {"a": None, "b": None, "c": 10**300}


def test_each_row_can_be_read_from_both_files_as_soon_as_it_is_written(tmp_path: Path) -> None:
    writer = ResultWriter(tmp_path)
    for iteration in (1, 2):
        writer.write(row(iteration))
        assert len(read_results(tmp_path)) == iteration
        assert len(table(tmp_path)) == iteration
    writer.close()


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, row(1), row(2))
    path = tmp_path / "result.json"
    whole = path.read_bytes()
    for length in range(len(whole) // 2 + 1, len(whole)):
        path.write_bytes(whole[:length])
        assert read_results(tmp_path) == [row(1)]


def test_zero_bytes_left_by_a_power_cut_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, row(1))
    with (tmp_path / "result.json").open("ab") as file:
        file.write(b"\0" * 30 + b"\n" + json.dumps(row(2)).encode() + b"\n")
    assert read_results(tmp_path) == [row(1), row(2)]


def test_a_column_that_appears_later_is_added_to_the_header_of_progress_csv(tmp_path: Path) -> None:
    write(tmp_path, row(1), row(2, **{"evaluation/episode_return_mean": 7.0}), row(3))
    rows = table(tmp_path)
    assert list(rows[0]) == ["iteration", "env_steps", "episode_return_mean", "evaluation/episode_return_mean"]
    assert [each["evaluation/episode_return_mean"] for each in rows] == ["", "7.0", ""]
    assert [each["iteration"] for each in rows] == ["1", "2", "3"]


def test_a_new_writer_appends_to_existing_rows(tmp_path: Path) -> None:
    write(tmp_path, row(1))
    write(tmp_path, row(2, extra=1.0))
    assert read_results(tmp_path) == [row(1), row(2, extra=1.0)]
    assert [each["extra"] for each in table(tmp_path)] == ["", "1.0"]


def fast(iteration: int, **more: Any) -> dict[str, Any]:
    """A row of an iteration that took a quarter of a second."""
    return row(iteration, time_total_s=iteration / 4, **more)


def test_rows_written_more_than_once_a_second_are_kept_in_result_json_and_thinned_in_progress_csv(
    tmp_path: Path,
) -> None:
    write(tmp_path, *map(fast, range(1, 11)))
    assert [each["iteration"] for each in read_results(tmp_path)] == list(range(1, 11))
    assert [each["iteration"] for each in table(tmp_path)] == ["1", "5", "9", "10"]  # the last one is included


def test_a_row_with_a_new_metric_is_not_thinned_out_of_progress_csv(tmp_path: Path) -> None:
    evaluated = fast(3, **{"evaluation/episode_return_mean": 7.0})
    write(tmp_path, fast(1), fast(2), evaluated, fast(4))
    assert [each["iteration"] for each in table(tmp_path)] == ["1", "3", "4"]


def test_resuming_a_trial_repeats_no_row_in_a_thinned_progress_csv(tmp_path: Path) -> None:
    write(tmp_path, *map(fast, range(1, 8)))
    truncate_results(tmp_path, after_iteration=6)
    write(tmp_path, *map(fast, range(7, 12)))
    assert [each["iteration"] for each in read_results(tmp_path)] == list(range(1, 12))
    assert [each["iteration"] for each in table(tmp_path)] == ["1", "5", "7", "11"]


def test_a_resume_adds_the_row_that_a_kill_left_out_of_a_thinned_progress_csv(tmp_path: Path) -> None:
    killed = ResultWriter(tmp_path)
    for iteration in (1, 2, 3):
        killed.write(fast(iteration))
    assert [each["iteration"] for each in table(tmp_path)] == ["1"]
    truncate_results(tmp_path, after_iteration=2)
    assert [each["iteration"] for each in table(tmp_path)] == ["1", "2"]
    killed.close()


def test_a_resume_repairs_zero_bytes_in_progress_csv_even_if_no_row_is_cut(tmp_path: Path) -> None:
    write(tmp_path, *map(row, range(1, 4)))
    whole = (tmp_path / "progress.csv").read_bytes()
    (tmp_path / "progress.csv").write_bytes(whole[:-9] + bytes(9))
    assert truncate_results(tmp_path, after_iteration=3) == Truncation(0)
    assert (tmp_path / "progress.csv").read_bytes() == whole


def test_the_last_row_is_in_progress_csv_once_the_results_are_complete(tmp_path: Path) -> None:
    writer = ResultWriter(tmp_path)
    for iteration in (1, 2, 3):
        writer.write(fast(iteration))
    writer.complete()
    writer.complete()
    assert [each["iteration"] for each in table(tmp_path)] == ["1", "3"]
    writer.close()
    assert [each["iteration"] for each in table(tmp_path)] == ["1", "3"]


def test_truncating_cuts_result_json_and_progress_csv_after_the_given_iteration(tmp_path: Path) -> None:
    write(tmp_path, *map(row, range(1, 6)))
    with (tmp_path / "result.json").open("ab") as file:
        file.write(b'{"iteration": 6, "env')
    assert truncate_results(tmp_path, after_iteration=3) == Truncation(2)
    assert read_results(tmp_path) == [row(1), row(2), row(3)]
    assert [each["iteration"] for each in table(tmp_path)] == ["1", "2", "3"]
    write(tmp_path, row(4))
    assert [each["iteration"] for each in read_results(tmp_path)] == [1, 2, 3, 4]


def test_after_truncating_all_rows_new_rows_can_be_written(tmp_path: Path) -> None:
    write(tmp_path, row(1))
    assert truncate_results(tmp_path, after_iteration=0) == Truncation(1)
    assert read_results(tmp_path) == []
    write(tmp_path, row(1))
    assert [each["iteration"] for each in table(tmp_path)] == ["1"]


def test_truncating_a_trial_without_results_makes_no_files(tmp_path: Path) -> None:
    assert truncate_results(tmp_path, after_iteration=3).rows_cut == 0
    assert list(tmp_path.iterdir()) == []


def test_truncating_restores_a_last_row_that_was_lost_in_a_power_cut(tmp_path: Path) -> None:
    write(tmp_path, row(1))
    truncate_results(tmp_path, after_iteration=2, known={2: row(2)})
    assert read_results(tmp_path) == [row(1), row(2)]


def test_damaged_rows_are_reported_by_line_and_restored_from_checkpoints_where_possible(
    tmp_path: Path, wording
) -> None:
    write(tmp_path, *map(row, range(1, 6)))
    file = tmp_path / "result.json"
    lines = file.read_bytes().split(b"\n")
    lines[1], lines[2] = b"\0" * 9, b"[" * 100_000
    file.write_bytes(b"\n".join(lines))
    found = truncate_results(tmp_path, after_iteration=4, known={2: row(2), 4: row(4)})
    assert found.rows_cut == 1
    assert found.damage == wording(file)
    assert read_results(tmp_path) == [row(1), row(2), row(4)]
    assert Path(f"{file}.damaged").read_bytes() == b"\n".join(lines)


def test_a_missing_results_file_is_reported_and_restored_from_checkpoints(tmp_path: Path, wording) -> None:
    found = truncate_results(tmp_path, after_iteration=4, known={3: row(3), 4: row(4)})
    assert found.damage == wording(tmp_path / "result.json")
    assert read_results(tmp_path) == [row(3), row(4)]


def test_a_row_that_differs_from_its_checkpoint_is_reported_and_restored(tmp_path: Path, wording) -> None:
    write(tmp_path, row(1), row(2, x=9.0), row(3))
    found = truncate_results(tmp_path, after_iteration=3, known={2: row(2, x=1.0)})
    assert found.damage[0] == wording(tmp_path / "result.json")
    assert read_results(tmp_path) == [row(1), row(2, x=1.0), row(3)]


def known_until(iteration: int, best: float | None = None, rows: bytes = b"") -> TrialRecord:
    digest = hashlib.sha256(rows).hexdigest() if rows else ""
    return TrialRecord(
        "t", "TERMINATED", 0, iteration=iteration, best_return=best, results_bytes=len(rows), results_sha256=digest
    )


def test_a_return_above_the_best_in_trial_json_is_reported_as_damage_and_ignored(tmp_path: Path, wording) -> None:
    returns = [{"episode_return_mean": value} for value in (5.0, 1e9, 7.0)]
    write(tmp_path, *(row(number, **each) for number, each in enumerate(returns, start=1)))
    found = truncate_results(tmp_path, after_iteration=3, record=known_until(2, best=5.0))
    assert found.damage[0] == wording("result.json:2", "episode_return_mean", "trial.json")
    assert best_value(read_results(tmp_path), RETURN) == 7.0


def test_a_return_of_zero_above_a_negative_best_in_trial_json_is_reported(tmp_path: Path, wording) -> None:
    write(tmp_path, row(1, episode_return_mean=-200.0), row(2, episode_return_mean=0.0))
    assert check_results(tmp_path, 2, record=known_until(2, best=-200.0)).damage == wording(
        tmp_path / "result.json", "episode_return_mean", "trial.json", "-200"
    )


def test_an_absurdly_large_iteration_in_trial_json_is_reported_quickly(tmp_path: Path, wording) -> None:
    write(tmp_path, row(1))
    assert check_results(tmp_path, 10**15).damage == wording(tmp_path / "result.json", 10**15)


def test_of_two_rows_for_the_same_iteration_only_the_later_one_is_kept(tmp_path: Path) -> None:
    write(tmp_path, row(1), row(2, x=1), row(2, x=2))
    truncate_results(tmp_path, after_iteration=2)
    assert read_results(tmp_path) == [row(1), row(2, x=2)]


@pytest.mark.parametrize(
    ("name", "timing"),
    [
        ("time_total_s", True),
        ("time_this_iter_s", True),
        ("time/sample_s", True),
        ("env_steps_per_s", True),
        ("env_steps", False),
        ("episode_return_mean", False),
        ("learner/policy_loss", False),
    ],
)
def test_metrics_of_timing_are_recognized_by_their_names(name: str, timing: bool) -> None:
    assert is_timing(name) is timing


FILL_THE_DISK = """
import resource, sys
from pathlib import Path
from rlrun.engine.messages.errors import OutOfResources
from rlrun.experiments.trial.results import ResultWriter, read_results

resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
writer = ResultWriter(Path(sys.argv[1]))
try:
    for iteration in range(1, 1000):
        writer.write({"iteration": iteration, "env_steps": iteration})
except OutOfResources as error:
    print(error)
writer.close()
"""


def test_a_full_disk_is_explained_and_the_rows_written_before_are_kept(tmp_path: Path, wording) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FILL_THE_DISK, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == wording("/result.json")
    assert done.stderr == ""
    rows = read_results(tmp_path)
    assert [each["iteration"] for each in rows] == list(range(1, len(rows) + 1))
    assert resource.getrlimit(resource.RLIMIT_FSIZE) != (1000, 1000)


def test_writing_rows_imports_no_large_package(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from rlrun.experiments.trial.results import ResultWriter

writer = ResultWriter(Path(sys.argv[1]))
writer.write({"iteration": 1, "env_steps": 1})
writer.close()
print(sorted({"torch", "ray", "tensorboard", "google.protobuf", "pandas"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("length", [1, 10, TAIL_BYTES - 60, TAIL_BYTES, 3 * TAIL_BYTES])
def test_the_last_row_is_found_whatever_its_length(tmp_path: Path, length: int) -> None:
    assert read_last_row(tmp_path) is None
    for number in (1, 2, 3):
        write(tmp_path, row(number, text="x" * length))
        assert read_last_row(tmp_path) == row(number, text="x" * length)


@pytest.mark.parametrize("tail", [b'{"iteration": 3', b"\0" * 100, b"\0" * 9000 + b"\n", b"[1]\n", b"\n\n", b"x"])
def test_a_torn_line_after_the_last_row_is_ignored_when_the_last_row_is_read(tmp_path: Path, tail: bytes) -> None:
    write(tmp_path, row(1), row(2))
    with (tmp_path / "result.json").open("ab") as file:
        file.write(tail)
    assert read_last_row(tmp_path) == row(2) == read_results(tmp_path)[-1]


@pytest.mark.parametrize("content", [b"", b"\n", b"{", b"nothing\n" * 3, b'{"iteration": 1}'])
def test_a_results_file_without_a_complete_row_has_no_last_row(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "result.json").write_bytes(content)
    assert read_last_row(tmp_path) is None


def test_an_altered_row_is_detected_by_the_digest_in_trial_json(tmp_path: Path) -> None:
    write(tmp_path, row(1, time_total_s=1.5), row(2, time_total_s=2.5))
    file = tmp_path / "result.json"
    record = known_until(2, rows=file.read_bytes())
    write(tmp_path, row(3))  # this later row is not on record yet
    assert check_results(tmp_path, 2, record=record).damage == ()
    assert check_results(tmp_path, 1, record=record).damage == ()  # as in a resume from iteration 1
    file.write_text(file.read_text().replace("1.5", "9.5"))
    told = f"{file}: a row up to iteration 2 was altered: the sha256 differs from trial.json"
    assert check_results(tmp_path, 2, record=record).damage == (told,)
    assert truncate_results(tmp_path, 2, record=record).damage[0] == told


def test_duplicate_and_out_of_order_rows_are_reported(tmp_path: Path, wording) -> None:
    write(tmp_path, row(1), row(2), row(2), row(1), row(3))
    found = check_results(tmp_path, 3)
    assert found.damage == wording(tmp_path / "result.json")
    assert list(found.rows) == [row(1), row(2), row(3)]


def test_a_writer_keeps_the_digest_of_all_rows_even_those_of_earlier_writers(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    for numbers in ((1, 2), (3,)):
        writer = ResultWriter(tmp_path)
        for number in numbers:
            writer.write(row(number))
            assert writer.written() == (file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest())
        writer.close()


def test_a_results_file_with_nothing_to_cut_is_not_rewritten(tmp_path: Path) -> None:
    write(tmp_path, row(1), row(2))
    before = (tmp_path / "result.json").stat().st_ino
    assert truncate_results(tmp_path, after_iteration=2).rows_cut == 0
    assert (tmp_path / "result.json").stat().st_ino == before


def test_reading_rows_keeps_only_the_requested_metrics(tmp_path: Path) -> None:
    write(tmp_path, row(1, x=1.0, y=2.0), row(2, x=3.0))
    found = check_results(tmp_path, 3, metrics=("x",), known={3: row(3, x=5.0, y=6.0)})
    assert list(found.rows) == [{"iteration": 1, "x": 1.0}, {"iteration": 2, "x": 3.0}, {"iteration": 3, "x": 5.0}]
    assert "y" in found.names


def test_a_results_file_without_line_breaks_holds_no_rows_however_long_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "LONGEST_ROW_BYTES", 10_000)
    write(tmp_path, row(1))
    with (tmp_path / "result.json").open("r+b") as file:
        file.truncate(10**11)
    assert read_last_row(tmp_path) is None
