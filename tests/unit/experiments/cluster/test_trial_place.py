"""Trials without access to the run's directory: what is copied to it, what comes back, and what a kill leaves."""

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rlrun.engine.checkpoint.format import Content, verify_checkpoint, write_checkpoint
from rlrun.engine.checkpoint.store import CheckpointStore
from rlrun.engine.messages.errors import CheckpointError, TrainingFailed, UsageError
from rlrun.experiments.cluster import trial_place
from rlrun.experiments.cluster.driver_files import DriverFiles, Operation
from rlrun.experiments.cluster.trial_place import (
    PIECE_BYTES,
    SCRATCH_VARIABLE,
    TrialMirror,
    leave_token,
    open_trial_place,
    sees,
)
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial import results
from rlrun.experiments.trial.results import read_results
from rlrun.experiments.trial.slow_iterations import ProgressMessages
from rlrun.experiments.trial.trial_directory import TrialDirectory
from rlrun.experiments.trial.trial_loop import TrialLoop
from tests.files import files
from tests.results import all_numbers

ELSEWHERE = Path("/only/the/driver/has/runs/steady")
"""The run's directory as the trials know it; this path does not exist on their machine."""
TRIAL = "000-seed=0"


class MortalDisk(DriverFiles):
    """Carries out a number of operations; then the sender dies."""

    def __init__(self, run: str, operations: int) -> None:
        super().__init__(run)
        self._left = operations

    def apply(self, trial: str, claim: str, operations: Sequence[Operation]) -> None:
        for operation in operations:
            if not self._left:
                raise KeyboardInterrupt
            self._left -= 1
            super().apply(trial, claim, [operation])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = tmp_path / "driver/runs/steady"
    run.mkdir(parents=True)
    return run


@pytest.fixture
def disk(run: Path) -> Iterator[DriverFiles]:
    disk = DriverFiles(str(run))
    yield disk
    disk.release(TRIAL)


def mirror(disk: DriverFiles, tmp_path: Path, trial: str = TRIAL) -> TrialMirror:
    return TrialMirror(disk, ELSEWHERE, trial, tmp_path / "scratch")


def spec(iterations: int = 6, **checkpoint: Any) -> TrialSpec:
    entry = {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "stop": {"iteration": iterations},
        "checkpoint": {"every": 1, "keep": 2, "best": None, **checkpoint},
        "config": {
            "train_batch_size": 64,
            "min_env_steps_per_iteration": 0,
            "minibatch_size": 32,
            "num_epochs": 1,
            "num_envs_per_worker": 2,
            "model": {"hiddens": [8]},
        },
    }
    (experiment,) = parse_experiments({"steady": entry})
    return experiment.trials()[0]


def test_after_each_push_the_run_has_the_same_files_as_the_trial(tmp_path: Path, run: Path, disk: DriverFiles) -> None:
    place = mirror(disk, tmp_path)
    with TrialLoop(spec(), place.directory) as loop:
        while not loop.done:
            loop.step()
            loop.checkpoints.wait()
            place.push()
            assert files(run / TRIAL) == files(place.directory)
    place.push()
    assert files(run / TRIAL) == files(place.directory)
    assert [path.name for path in CheckpointStore(run / TRIAL / "checkpoints").paths()] == [
        "iteration_000005",
        "iteration_000006",
    ]
    place.close()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_progress_of_a_trial_on_another_machine_reaches_the_run(
    tmp_path: Path, run: Path, disk: DriverFiles
) -> None:
    place = TrialMirror(disk, ELSEWHERE, TRIAL, tmp_path / "scratch")
    place.write_progress("iteration 2: 40 env steps")
    assert ProgressMessages(run).new([TRIAL]) == {TRIAL: "iteration 2: 40 env steps"}
    place.close()


def test_each_result_row_is_sent_only_once(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "SECONDS_BETWEEN_ROWS", 0.0)  # every result adds a row to all files
    sent: list[Operation] = []

    class Listening(DriverFiles):
        def apply(self, trial: str, claim: str, operations: Sequence[Operation]) -> None:
            sent.extend(operations)
            super().apply(trial, claim, operations)

    disk = Listening(str(run))
    place = mirror(disk, tmp_path)
    with TrialLoop(spec(every=None), place.directory) as loop:
        for _ in range(4):
            loop.step()
            loop.checkpoints.wait()
            place.push()
        sent.clear()
        place.push()
        assert sent == []
        loop.step()
        loop.checkpoints.wait()
        place.push()
        kinds = {operation.name.partition(".rlrun")[0]: operation.kind for operation in sent}
        assert kinds.pop("events.out.tfevents.0000000000") == "append"
        assert kinds == {"result.json": "append", "progress.csv": "append"}
        lines = (place.directory / "result.json").read_bytes().splitlines(keepends=True)
        assert [operation.data for operation in sent if operation.name == "result.json"] == lines[-1:]
    place.close()
    disk.release(TRIAL)


def test_a_trial_that_moves_between_machines_produces_the_results_of_an_unmoved_one(
    tmp_path: Path, run: Path, disk: DriverFiles
) -> None:
    with TrialLoop(spec(every=2, best="episode_return_mean"), tmp_path / "still") as still:
        while not still.done:
            still.step()
    for machine in ("a", "b", "c"):
        disk.release(TRIAL)  # the driver does this when it hears that a machine is lost
        place = TrialMirror(disk, ELSEWHERE, TRIAL, tmp_path / machine)
        with TrialLoop(spec(every=2, best="episode_return_mean"), place.directory, resume=True) as loop:
            for _ in range(3):  # each machine but the last is lost one iteration after the last checkpoint
                if not loop.done:
                    loop.step()
                    loop.checkpoints.wait()
                    place.push()
    place.push()
    assert all_numbers(read_results(run / TRIAL)) == all_numbers(read_results(tmp_path / "still"))
    kept = [path.name for path in CheckpointStore(tmp_path / "still/checkpoints").paths()]
    assert [path.name for path in CheckpointStore(run / TRIAL / "checkpoints").paths()] == kept
    for path in CheckpointStore(run / TRIAL / "checkpoints").paths():
        verify_checkpoint(path)
    assert len(list((run / TRIAL).glob("events.*"))) == 3


def test_only_the_newest_complete_checkpoint_is_fetched_and_older_ones_are_still_pruned(
    tmp_path: Path, run: Path, disk: DriverFiles, wording
) -> None:
    with TrialLoop(spec(keep=3), run / TRIAL) as loop:
        for _ in range(4):
            loop.step()
            loop.checkpoints.wait()
    damaged = run / TRIAL / "checkpoints/iteration_000004/state.json"
    size = damaged.stat().st_size
    damaged.write_bytes(b"{}")
    place = mirror(disk, tmp_path)
    here = CheckpointStore(place.directory / "checkpoints", keep=3).scan()
    assert here.newest == place.directory / "checkpoints/iteration_000003"
    assert [place.with_driver_paths(skipped.reason) for skipped in here.skipped] == wording(
        ELSEWHERE, TRIAL, "/checkpoints/iteration_000004", "state.json", size=size
    )
    assert [path.name for path in (place.directory / "checkpoints/iteration_000002").iterdir()] == ["manifest.json"]
    with TrialLoop(spec(keep=3), place.directory, resume=True) as loop:
        while not loop.done:
            loop.step()
            loop.checkpoints.wait()
            place.push()
    assert [path.name for path in CheckpointStore(run / TRIAL / "checkpoints").paths()] == [
        f"iteration_{iteration:06}" for iteration in (4, 5, 6)
    ]
    place.close()


def test_a_kill_in_the_middle_of_a_push_leaves_only_complete_checkpoints(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    with TrialLoop(spec(), before / TRIAL) as loop:
        for _ in range(3):
            loop.step()
            loop.checkpoints.wait()
        shutil.copytree(before, after)
    with TrialLoop(spec(), after / TRIAL, resume=True) as loop:
        loop.step()
        loop.checkpoints.wait()
    for operations in range(100):
        run = shutil.copytree(before, tmp_path / f"killed-{operations}")
        disk = MortalDisk(str(run), operations)
        place = mirror(disk, tmp_path)
        shutil.rmtree(place.directory)
        shutil.copytree(after / TRIAL, place.directory)
        died = False
        try:
            place.push()
        except KeyboardInterrupt:
            died = True
        place.close()
        disk.release(TRIAL)
        kept = CheckpointStore(run / TRIAL / "checkpoints").paths()
        assert len(kept) >= 2
        for path in kept:
            verify_checkpoint(path)
            assert len(read_results(run / TRIAL)) >= int(path.name[-6:])
        if not died:
            break
        goes_on = mirror(disk, tmp_path)  # whichever process continues the trial cleans up
        assert not list(run.rglob("*.partial"))
        assert [path.name for path in CheckpointStore(goes_on.directory / "checkpoints").paths()] == [
            path.name for path in kept
        ]
        goes_on.close()
        disk.release(TRIAL)
    assert 10 < operations < 60
    assert files(run / TRIAL) == files(after / TRIAL)


def test_large_files_travel_in_pieces(tmp_path: Path, run: Path, disk: DriverFiles) -> None:
    place = mirror(disk, tmp_path)
    large = os.urandom(2 * PIECE_BYTES + 5)
    (place.directory / "notes.bin").write_bytes(large)
    (place.directory / "result.json").write_bytes(large)
    place.push()
    assert (run / TRIAL / "notes.bin").read_bytes() == large
    with (place.directory / "result.json").open("ab") as file:
        file.write(large)
    place.push()
    assert (run / TRIAL / "result.json").read_bytes() == 2 * large
    place.close()
    again = mirror(disk, tmp_path)
    assert (again.directory / "result.json").read_bytes() == 2 * large
    again.close()


def test_a_rewritten_file_is_sent_in_full_and_not_treated_as_an_appended_one(
    tmp_path: Path, run: Path, disk: DriverFiles
) -> None:
    place = mirror(disk, tmp_path)
    result = place.directory / "result.json"
    result.write_text("one\ntwo\n")
    place.push()
    for text in ("ONE\n", "ONE\nTWO\nTHREE\n"):  # twice, so that the file system may reuse the first file's inode
        other = place.directory / "other"
        other.write_text(text)
        other.replace(result)
    place.push()
    assert (run / TRIAL / "result.json").read_text() == "ONE\nTWO\nTHREE\n"
    place.close()


def test_claiming_a_trial_waits_until_the_previous_process_releases_it(tmp_path: Path, disk: DriverFiles) -> None:
    before = mirror(disk, tmp_path)

    def let_go() -> None:
        (before.directory / "error.txt").write_text("the last words")
        before.push()
        before.close()

    timer = threading.Timer(0.3, let_go)
    timer.start()
    after = mirror(disk, tmp_path)
    timer.join()
    assert (after.directory / "error.txt").read_text() == "the last words"
    after.close()


def test_a_trial_claimed_by_a_process_that_can_access_the_run_is_not_taken_over(
    tmp_path: Path, run: Path, disk: DriverFiles, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setattr(trial_place, "CLAIM_TIMEOUT_S", 0.2)
    directory = TrialDirectory(run / TRIAL)
    directory.claim()
    with wording.raised(UsageError):
        mirror(disk, tmp_path)
    directory.release()
    mirror(disk, tmp_path).close()


def test_a_process_considered_lost_can_no_longer_write(
    tmp_path: Path, run: Path, disk: DriverFiles, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setattr(trial_place, "CLAIM_TIMEOUT_S", 0.2)
    lost = mirror(disk, tmp_path)
    (lost.directory / "error.txt").write_text("from the lost one")
    there = mirror(disk, tmp_path)
    (there.directory / "error.txt").write_text("from the new one")
    there.push()
    with wording.raised(TrainingFailed, TRIAL):
        lost.push()
    assert (run / TRIAL / "error.txt").read_text() == "from the new one"
    disk.release(TRIAL)
    (there.directory / "error.txt").write_text("from the new one, too late")
    with pytest.raises(TrainingFailed, match="was restarted in another process"):
        there.push()
    lost.close()
    there.close()


def test_a_trial_running_elsewhere_is_claimed_in_the_run_until_it_is_released(
    tmp_path: Path, run: Path, disk: DriverFiles, wording
) -> None:
    place = mirror(disk, tmp_path)
    with wording.raised(UsageError):
        TrialDirectory(run / TRIAL).claim(timeout_s=0)
    disk.release(TRIAL)
    assert not TrialDirectory(run / TRIAL).is_claimed()
    place.close()


def test_files_and_messages_sent_to_the_run_contain_paths_in_the_run(
    tmp_path: Path, run: Path, disk: DriverFiles, wording
) -> None:
    place = mirror(disk, tmp_path)
    (place.directory / "error.txt").write_text(f"{place.directory}/failed")
    (place.directory / "trial.json").write_text(f'{{"error": "see {place.directory}/failed"}}')
    place.push()
    assert (run / TRIAL / "error.txt").read_text() == f"{ELSEWHERE}/{TRIAL}/failed"
    assert (run / TRIAL / "trial.json").read_text() == f'{{"error": "see {ELSEWHERE}/{TRIAL}/failed"}}'
    assert place.with_driver_paths(f"continuing from {place.directory}") == wording(ELSEWHERE, TRIAL)
    place.close()


def test_a_checkpoint_of_another_trial_is_fetched_again_only_if_its_content_changes(
    tmp_path: Path, run: Path, disk: DriverFiles
) -> None:
    parent = run / "001-seed=1/checkpoints/iteration_000002"
    there = ELSEWHERE / "001-seed=1/checkpoints/iteration_000002"
    with TrialLoop(spec(), run / "001-seed=1") as loop:
        loop.step()
        loop.step()
        loop.checkpoints.wait()
        place = mirror(disk, tmp_path)
        first = place.fetch(there)
        assert files(first) == files(parent)
        (first / "state.json").write_text("whoever fetches it twice gets it from here")
        assert place.fetch(there) == first
        assert (first / "state.json").read_text() == "whoever fetches it twice gets it from here"
        write_checkpoint(parent, Content({}, {}, {}, {"another": "content of the same name"}))
    assert files(place.fetch(there)) == files(parent)
    place.push()
    assert not (run / TRIAL / "checkpoints").exists()
    gone = place.fetch(ELSEWHERE / "002-seed=2/checkpoints/iteration_000002")
    with pytest.raises(CheckpointError, match="002-seed=2/checkpoints/iteration_000002"):
        verify_checkpoint(gone)
    place.close()


def test_a_trial_can_start_from_a_checkpoint_of_another_run_on_any_machine(
    tmp_path: Path, run: Path, disk: DriverFiles
) -> None:
    with TrialLoop(spec(iterations=1), tmp_path / "earlier") as earlier:
        earlier.step()
        start = earlier.save()
    with TrialLoop(spec(every=None, at_end=False), tmp_path / "still", from_checkpoint=start) as still:
        still.step()
        still.step()
    for _ in range(2):  # the first machine is lost before it has saved anything
        place = mirror(disk, tmp_path)
        begin = place.fetch(start)
        with TrialLoop(spec(every=None, at_end=False), place.directory, resume=True, from_checkpoint=begin) as loop:
            loop.step()
            loop.step()
            loop.checkpoints.wait()
            place.push()
        place.close()
    assert all_numbers(read_results(run / TRIAL)) == all_numbers(read_results(tmp_path / "still"))
    record = TrialDirectory(run / TRIAL).read_record()
    assert record is not None
    assert record.from_checkpoint == str(start)


def test_folders_of_killed_processes_are_removed_and_folders_of_living_processes_are_kept(
    tmp_path: Path, disk: DriverFiles
) -> None:
    living = mirror(disk, tmp_path)
    killed = tmp_path / "scratch/rlrun-trial-0123abcd"
    killed.mkdir()
    (killed / ".lock").touch()
    (tmp_path / "scratch/somebody-else").mkdir()
    other = mirror(disk, tmp_path, "001-seed=1")
    assert living.directory.is_dir()
    assert other.directory.is_dir()
    assert not killed.exists()
    assert (tmp_path / "scratch/somebody-else").is_dir()
    living.close()
    other.close()
    disk.release("001-seed=1")


def test_a_process_recognizes_the_directory_of_a_run_by_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    run.mkdir()
    other.mkdir()
    token = leave_token(run)
    leave_token(other)
    assert sees(run, token)
    assert not sees(other, token)
    assert not sees(tmp_path / "nowhere", token)

    place = open_trial_place(run, TRIAL, token, "")
    assert not place.is_copied
    assert place.directory == run / TRIAL
    assert place.fetch(run / "x") == run / "x"
    assert place.with_driver_paths(f"{run}") == f"{run}"
    with wording.raised(UsageError, other):
        open_trial_place(other, TRIAL, token, "")
    monkeypatch.setenv(SCRATCH_VARIABLE, str(tmp_path / "scratch"))
    assert not open_trial_place(run, TRIAL, token, "").is_copied  # no actor could bring its files back
