import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rlrun.engine.checkpoint.durable import partial_name
from rlrun.engine.messages.errors import RunDamaged, UsageError
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord

RECORD = TrialRecord("000-lr=0.001-seed=0", "RUNNING", 0, {"lr": 1e-3}, iteration=3, env_steps=300, pid=1234)

HOLD = """
import sys
from pathlib import Path
from rlrun.experiments.trial.trial_directory import TrialDirectory

TrialDirectory(Path(sys.argv[1])).claim()
print("claimed", flush=True)
sys.stdin.read()
"""


def holder(directory: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "claimed\n"
    return process


def test_a_written_record_is_read_back_unchanged(tmp_path: Path) -> None:
    directory = TrialDirectory(tmp_path / "trial")
    assert directory.read_record() is None
    directory.write_record(RECORD)
    assert directory.read_record() == RECORD
    directory.write_record(replace(RECORD, status="TERMINATED", stop_reason="env_steps 400 >= 400", pid=None))
    found = directory.read_record()
    assert found is not None
    assert (found.status, found.stop_reason, found.pid) == ("TERMINATED", "env_steps 400 >= 400", None)
    assert [path.name for path in directory.path.iterdir()] == ["trial.json"]


def test_a_trial_record_written_by_a_newer_version_can_be_read(tmp_path: Path) -> None:
    directory = TrialDirectory(tmp_path)
    directory.write_record(RECORD)
    data = json.loads((tmp_path / "trial.json").read_text())
    (tmp_path / "trial.json").write_text(json.dumps({**data, "new": 1}))
    assert directory.read_record() == RECORD


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "3"])
def test_the_error_for_an_invalid_record_names_trial_json(tmp_path: Path, text: str, wording) -> None:
    (tmp_path / "trial.json").write_text(text)
    with wording.raised(RunDamaged, "trial.json"):
        TrialDirectory(tmp_path).read_record()


def test_a_written_spec_is_read_back_unchanged(tmp_path: Path) -> None:
    directory = TrialDirectory(tmp_path / "trial")
    spec = {"name": "x", "config": {"lr": 1e-5, "schedule": [[0, 1.0], [10, 0.0]]}, "env": {"id": "on"}}
    directory.write_spec(spec)
    assert directory.read_spec() == spec


def test_the_error_for_a_missing_or_invalid_spec_names_spec_yaml(tmp_path: Path, wording) -> None:
    directory = TrialDirectory(tmp_path)
    with wording.raised(RunDamaged, "spec.yaml"):
        directory.read_spec()
    for text in ("- 1", "a: [", "a: &a 1\nb: *a"):
        (tmp_path / "spec.yaml").write_text(text)
        with pytest.raises(RunDamaged, match=r"spec\.yaml: "):
            directory.read_spec()


def test_an_error_text_with_any_characters_can_be_written_and_removed(tmp_path: Path) -> None:
    directory = TrialDirectory(tmp_path)
    directory.write_error("Traceback…\ud800")
    assert (tmp_path / "error.txt").read_text() == "Traceback…?"
    directory.clear_error()
    directory.clear_error()
    assert list(tmp_path.iterdir()) == []


def test_a_trial_that_is_run_by_another_process_cannot_be_claimed(tmp_path: Path, wording) -> None:
    directory = TrialDirectory(tmp_path)
    process = holder(tmp_path)
    directory.write_record(replace(RECORD, pid=process.pid))
    assert directory.is_claimed()
    with wording.raised(UsageError, pid=process.pid):
        directory.claim(timeout_s=0.1)
    process.communicate("")


def test_a_killed_process_no_longer_claims_its_trial(tmp_path: Path) -> None:
    directory = TrialDirectory(tmp_path)
    process = holder(tmp_path)
    process.kill()
    process.communicate()
    assert not directory.is_claimed()
    directory.claim()
    directory.release()


def test_the_next_claim_removes_partial_files_left_by_a_kill(tmp_path: Path, wording) -> None:
    directory = TrialDirectory(tmp_path)
    directory.write_record(RECORD)
    (partial_name(tmp_path / "failed") / "policies").mkdir(parents=True)
    directory.checkpoints.mkdir()
    left = [partial_name(tmp_path / "trial.json"), partial_name(directory.checkpoints / "iteration_000001")]
    for path in left:
        path.write_text("{")
    process = holder(tmp_path)  # claims the folder and removes the partial files
    assert [path.name for path in tmp_path.rglob("*.partial")] == []
    left[0].write_text("{")  # the partial file of a living process is kept
    with wording.raised(UsageError):
        directory.claim(timeout_s=0)
    assert left[0].exists()
    process.kill()
    process.communicate()
    directory.claim()
    directory.release()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "checkpoints", "trial.json"]


def test_claiming_a_trial_waits_until_the_previous_process_releases_it(tmp_path: Path) -> None:
    directory = TrialDirectory(tmp_path)
    process = holder(tmp_path)
    assert process.stdin is not None
    process.stdin.close()
    directory.claim(timeout_s=60)
    directory.release()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_one_process_cannot_claim_a_trial_twice_and_checking_a_claim_does_not_release_it(
    tmp_path: Path, wording
) -> None:
    first, second = TrialDirectory(tmp_path), TrialDirectory(tmp_path / "x" / "..")
    (tmp_path / "x").mkdir()
    first.claim()
    assert first.is_claimed()
    assert second.is_claimed()
    with wording.raised(UsageError):
        second.claim()
    probe = (
        "import sys; from pathlib import Path; from rlrun.experiments.trial.trial_directory import TrialDirectory; "
        + ("sys.exit(not TrialDirectory(Path(sys.argv[1])).is_claimed())")
    )
    subprocess.run([sys.executable, "-c", probe, str(tmp_path)], check=True)
    second.release()
    assert first.is_claimed()
    first.release()
    assert not first.is_claimed()


def test_a_directory_in_place_of_the_lock_file_is_reported_as_damage_and_not_as_a_claim(
    tmp_path: Path, wording
) -> None:
    directory = TrialDirectory(tmp_path / "t")
    (tmp_path / "t" / ".lock").mkdir(parents=True)
    assert not directory.is_claimed()
    with wording.raised(RunDamaged):
        directory.claim()
