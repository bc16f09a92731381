"""Event files are read back by TensorBoard itself."""

import logging
from pathlib import Path
from typing import Any

import pytest

from rlrun.trial.event_file import FILE_PATTERN, EventFile
from rlrun.trial.results import ResultWriter, truncate_results


@pytest.fixture(autouse=True)
def quiet_tensorboard() -> None:
    logging.getLogger("tensorboard").setLevel(logging.ERROR)


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator: Any = EventAccumulator(str(directory))
    accumulator.Reload()
    return {
        name: [(event.step, event.value) for event in accumulator.Scalars(name)]
        for name in accumulator.Tags()["scalars"]
    }


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    events = EventFile(tmp_path, first_step=0)
    events.add_scalars(0, {"a/b": 1.5, "naïve": -2.0})
    events.add_scalars(2**40, {"a/b": 1e-30})
    events.close()
    found = scalars(tmp_path)
    assert found["naïve"] == [(0, -2.0)]
    assert found["a/b"] == [(0, 1.5), (2**40, pytest.approx(1e-30))]


def test_every_length_of_record_has_the_right_checksum(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    events = EventFile(tmp_path, first_step=0)
    for length in range(1, 300):
        events.add_scalars(length, {"x" * length: float(length)})
    events.close()
    (path,) = tmp_path.glob(FILE_PATTERN)
    loaded = list(EventFileLoader(str(path)).Load())
    assert [event.step for event in loaded if event.HasField("summary")] == list(range(1, 300))


def test_a_new_file_finds_its_place_though_an_earlier_one_was_removed(tmp_path: Path) -> None:
    for step in range(2):
        EventFile(tmp_path, first_step=step).close()
    min(tmp_path.glob(FILE_PATTERN)).unlink()
    events = EventFile(tmp_path, first_step=2)
    events.add_scalars(2, {"x": 1.0})
    events.close()
    assert scalars(tmp_path) == {"x": [(2, 1.0)]}
    assert max(tmp_path.glob(FILE_PATTERN)).name == "events.out.tfevents.0000000002.rlrun"


def test_a_file_that_a_kill_has_torn_is_read_up_to_there(tmp_path: Path) -> None:
    events = EventFile(tmp_path, first_step=0)
    events.add_scalars(1, {"x": 1.0})
    events.add_scalars(2, {"x": 2.0})
    events.close()
    (path,) = tmp_path.glob(FILE_PATTERN)
    path.write_bytes(path.read_bytes()[:-5])
    assert scalars(tmp_path) == {"x": [(1, 1.0)]}


def test_after_a_resume_tensorboard_forgets_the_steps_that_are_made_again(tmp_path: Path) -> None:
    def write(*rows: dict[str, Any]) -> None:
        writer = ResultWriter(tmp_path)
        for row in rows:
            writer.write(row)
        writer.close()

    write(*({"iteration": i, "env_steps": 10 * i, "x": float(i)} for i in range(1, 6)))
    truncate_results(tmp_path, after_iteration=3)
    write(*({"iteration": i, "env_steps": 10 * i, "x": float(-i)} for i in range(4, 7)))
    assert len(list(tmp_path.glob(FILE_PATTERN))) == 2
    assert scalars(tmp_path)["x"] == [(10, 1.0), (20, 2.0), (30, 3.0), (40, -4.0), (50, -5.0), (60, -6.0)]


def test_only_numbers_become_scalars(tmp_path: Path) -> None:
    writer = ResultWriter(tmp_path)
    writer.write({"iteration": 1, "env_steps": 7, "a": None, "b": float("nan"), "c": "x", "d": True, "e": 3})
    writer.close()
    assert scalars(tmp_path) == {"iteration": [(7, 1.0)], "env_steps": [(7, 7.0)], "e": [(7, 3.0)]}
