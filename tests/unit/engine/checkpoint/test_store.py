import shutil
from pathlib import Path
from typing import Any

import pytest

from rlrun.engine.checkpoint import store as store_module
from rlrun.engine.checkpoint.durable import remove_directory
from rlrun.engine.checkpoint.format import Content, read_checkpoint, verify_checkpoint
from rlrun.engine.checkpoint.store import CheckpointStore
from rlrun.engine.messages.errors import CheckpointCorrupt, CheckpointError

METRIC = "episode_return_mean"


def content(iteration: int) -> Content:
    return Content({"iteration": iteration}, {"seed": 0}, {}, {"iteration": iteration})


def filled(
    directory: Path, returns: dict[int, float | None], keep: int = 3, best: str | None = METRIC
) -> CheckpointStore:
    store = CheckpointStore(directory, keep, best)
    for iteration, value in returns.items():
        store.commit(store.stage(iteration, content(iteration), {"iteration": iteration, METRIC: value}))
    return store


def names(store: CheckpointStore) -> list[str]:
    return [path.name for path in store.paths()]


def damage(path: Path) -> None:
    with (path / "state.json").open("r+b") as file:
        file.write(b"X")


def test_reading_a_store_that_does_not_exist_finds_nothing_and_does_not_create_it(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints")
    assert store.paths() == []
    assert store.newest_valid() is None
    assert store.best() is None
    assert store.read_newest() is None
    assert not store.directory.exists()


def test_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    store = filled(tmp_path, dict.fromkeys(range(10, 60, 10), None), keep=2)
    assert names(store) == ["iteration_000040", "iteration_000050"]


def test_the_best_checkpoint_is_kept_in_addition_to_the_newest_ones(tmp_path: Path) -> None:
    store = filled(tmp_path, {10: 1.0, 20: 9.0, 30: 5.0, 40: 6.0, 50: 7.0}, keep=2)
    assert names(store) == ["iteration_000020", "iteration_000040", "iteration_000050"]
    assert store.best() == tmp_path / "iteration_000020"
    assert store.best_score() == 9.0


def test_the_former_best_checkpoint_is_removed_once_there_is_a_better_one(tmp_path: Path) -> None:
    store = filled(tmp_path, {10: 9.0, 20: 1.0, 30: 10.0, 40: 2.0}, keep=1)
    assert names(store) == ["iteration_000030", "iteration_000040"]


def test_the_newer_of_two_equally_good_checkpoints_is_the_best(tmp_path: Path) -> None:
    assert filled(tmp_path, {10: 5.0, 20: 5.0}).best() == tmp_path / "iteration_000020"


def test_a_checkpoint_with_a_missing_or_infinite_metric_is_never_the_best(tmp_path: Path) -> None:
    store = filled(tmp_path, {10: None, 20: float("nan"), 30: -5.0}, keep=9)
    assert store.best() == tmp_path / "iteration_000030"
    assert store.best("no_such_metric") is None


def test_the_best_checkpoint_can_be_chosen_by_any_metric(tmp_path: Path) -> None:
    assert filled(tmp_path, {10: 5.0, 20: 4.0}).best("iteration") == tmp_path / "iteration_000020"


def test_checkpoint_names_with_more_than_six_digits_are_sorted_by_number(tmp_path: Path) -> None:
    store = filled(tmp_path, {999_999: None, 1_000_000: None})
    assert names(store) == ["iteration_999999", "iteration_1000000"]
    assert store.newest_valid() == tmp_path / "iteration_1000000"


def test_a_scan_finds_the_newest_valid_checkpoint_and_reports_those_it_skipped(tmp_path: Path) -> None:
    store = filled(tmp_path, {10: None, 20: None, 30: None})
    damage(tmp_path / "iteration_000030")
    (tmp_path / "iteration_000020" / "manifest.json").unlink()
    scan = CheckpointStore(tmp_path).scan()
    assert scan.newest == tmp_path / "iteration_000010"
    assert [skipped.path.name for skipped in scan.skipped] == ["iteration_000030", "iteration_000020"]
    assert "state.json was altered" in scan.skipped[0].reason
    assert "manifest.json is missing" in scan.skipped[1].reason
    assert store.newest_valid() == tmp_path / "iteration_000010"


def test_reading_the_newest_checkpoint_skips_damaged_ones_and_reports_them(tmp_path: Path) -> None:
    store = filled(tmp_path, {10: None, 20: None})
    damage(tmp_path / "iteration_000020")
    found = store.read_newest()
    assert found is not None
    path, read, skipped = found
    assert path == tmp_path / "iteration_000010"
    assert read.state == {"iteration": 10}
    assert len(skipped) == 1


def test_the_error_if_all_checkpoints_are_damaged_names_each_of_them(tmp_path: Path, wording) -> None:
    store = filled(tmp_path, {10: None, 20: None})
    for path in store.paths():
        damage(path)
    assert store.newest_valid() is None
    with pytest.raises(CheckpointError) as caught:
        store.read_newest()
    assert str(caught.value).splitlines()[1:] == wording("/iteration_000020", "state.json", "manifest.json")


def test_damaged_checkpoints_do_not_count_toward_the_number_to_keep(tmp_path: Path) -> None:
    store = filled(tmp_path, {10: None, 20: None, 30: None}, keep=2)
    damage(tmp_path / "iteration_000030")
    assert store.newest_valid() == tmp_path / "iteration_000020"
    store.commit(store.stage(40, content(40), {}))
    assert names(store) == ["iteration_000020", "iteration_000040"]


def test_saving_an_iteration_removes_the_checkpoints_of_later_iterations(tmp_path: Path) -> None:
    store = filled(tmp_path, {10: 1.0, 20: 9.0, 30: 5.0})
    damage(tmp_path / "iteration_000030")
    store.commit(store.stage(11, content(11), {METRIC: 2.0}))
    assert names(store) == ["iteration_000010", "iteration_000011"]
    assert store.best() == tmp_path / "iteration_000011"


def test_saving_an_iteration_replaces_its_damaged_checkpoint(tmp_path: Path) -> None:
    store = filled(tmp_path, {10: 1.0})
    damage(tmp_path / "iteration_000010")
    assert store.newest_valid() is None
    store.commit(store.stage(10, content(10), {METRIC: 1.0}))
    assert store.newest_valid() == tmp_path / "iteration_000010"
    assert store.best() == tmp_path / "iteration_000010"


def test_leftovers_of_interrupted_writes_are_removed_only_by_the_next_save(tmp_path: Path) -> None:
    store = filled(tmp_path, {10: None})
    leftover = tmp_path / ".iteration_000020.0123abcd.partial"
    leftover.mkdir()
    (leftover / "state.npz").write_bytes(b"half")
    (tmp_path / ".best.json.0123abcd.partial").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "iteration_000005_copy").mkdir()
    assert CheckpointStore(tmp_path).newest_valid() == tmp_path / "iteration_000010"
    assert leftover.exists()
    store.commit(store.stage(20, content(20), {}))
    kept = ["iteration_000005_copy", "iteration_000010", "iteration_000020", "notes.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == kept


def test_a_failed_save_removes_no_checkpoint(tmp_path: Path, wording) -> None:
    store = filled(tmp_path, {10: None}, keep=1)
    with wording.raised(CheckpointError, "state.x", "builtins.object"):
        store.commit(store.stage(20, Content({}, {}, {}, {"x": object()}), {}))
    assert names(store) == ["iteration_000010"]


def test_the_training_result_is_stored_in_the_manifest(tmp_path: Path) -> None:
    result: dict[str, Any] = {"iteration": 10, METRIC: 4.5, "time_total_s": 1.0, "info/x": None}
    store = CheckpointStore(tmp_path)
    path = store.commit(store.stage(10, content(10), result))
    assert read_checkpoint(path).manifest == {"iteration": 10, "result": result}


def test_keep_0_raises_a_value_error(tmp_path: Path, wording) -> None:
    with wording.raised(ValueError):
        CheckpointStore(tmp_path, keep=0)


def test_a_checkpoint_can_be_verified_given_only_its_path(tmp_path: Path) -> None:
    store = filled(tmp_path, {10: None})
    (path,) = store.paths()
    verify_checkpoint(path)
    damage(path)
    with pytest.raises(CheckpointCorrupt):
        verify_checkpoint(path)


def test_removing_a_checkpoint_while_it_is_written_raises_one_clear_error(tmp_path: Path) -> None:
    store = filled(tmp_path / "checkpoints", {10: None})
    staged = store.stage(20, content(20), {})
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(CheckpointError, match=r"checkpoints/.*was removed while it was being written:"):
        store.commit(staged)


def test_a_save_tolerates_old_checkpoints_being_removed_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path, {10: None}, keep=1)

    def remove_twice(directory: Path) -> None:
        shutil.rmtree(directory)
        remove_directory(directory)

    monkeypatch.setattr(store_module, "remove_directory", remove_twice)
    store.commit(store.stage(20, content(20), {}))
    assert names(store) == ["iteration_000020"]
