"""What a CHECKPOINT or RUN on the command line means, and how runs are listed."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

import rlrun as rlrun_api
from rlrun.cli.targets import checkpoint_named, env_named, evaluation_env, read_next, run_named
from rlrun.engine.checkpoint.format import Content, read_checkpoint
from rlrun.engine.checkpoint.store import CheckpointStore
from rlrun.engine.messages.errors import CheckpointError, UsageError
from rlrun.experiments.runs.run_directory import RunTable
from rlrun.experiments.trial.results import ResultWriter
from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord, TrialStatus
from tests.command import rlrun


def make_trial(
    run: Path,
    name: str,
    returns: list[float],
    status: TrialStatus = "TERMINATED",
    evaluations: dict[int, float] | None = None,
) -> Path:
    """Writes a trial with one row and one checkpoint per return, 100 env steps each; evaluations by iteration."""
    run.mkdir(parents=True, exist_ok=True)
    names = (*sorted(path.parent.name for path in run.glob("*/trial.json")), name)
    table = RunTable("pole", "2026-01-01T00:00:00+00:00", "rlrun train", "local", (), {}, names)
    (run / "run.json").write_text(json.dumps(asdict(table)))
    trial = TrialDirectory(run / name)
    metric = "evaluation/episode_return_mean" if evaluations else "episode_return_mean"
    best = max(evaluations.values(), default=None) if evaluations else None
    trial.write_record(TrialRecord(name, status, seed=0, judged_by=metric, best_score=best))
    trial.write_spec({"checkpoint": {"best": metric}})
    writer = ResultWriter(trial.path)
    store = CheckpointStore(trial.checkpoints, keep=9)
    for iteration, mean in enumerate(returns, start=1):
        result: dict[str, object] = {"iteration": iteration, "env_steps": 100 * iteration, "episode_return_mean": mean}
        if evaluations:
            result["evaluation/episode_return_mean"] = evaluations.get(iteration)
        writer.write(result)
        store.commit(store.stage(iteration, Content({"algorithm": "ppo"}, {"algorithm": "ppo"}), result))
    writer.close()
    return trial.path


def test_the_name_of_a_run_with_one_trial_refers_to_its_newest_checkpoint(tmp_path: Path) -> None:
    trial = make_trial(tmp_path / "pole", "000", [10.0, 30.0, 20.0])
    assert checkpoint_named("pole", tmp_path, best=False) == trial / "checkpoints/iteration_000003"
    assert checkpoint_named(str(tmp_path / "pole"), Path("elsewhere"), best=False).name == "iteration_000003"
    assert checkpoint_named("pole/000", tmp_path, best=False).name == "iteration_000003"


def test_a_folder_in_the_working_directory_does_not_shadow_a_run_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = make_trial(tmp_path / "runs/pole", "000", [10.0])
    (tmp_path / "pole").mkdir()
    monkeypatch.chdir(tmp_path)
    assert checkpoint_named("pole", tmp_path / "runs", best=False) == trial / "checkpoints/iteration_000001"
    assert run_named("pole", tmp_path / "runs") == tmp_path / "runs/pole"


def test_the_best_checkpoint_is_the_one_with_the_highest_return(tmp_path: Path) -> None:
    make_trial(tmp_path / "pole", "000", [10.0, 30.0, 20.0])
    assert checkpoint_named("pole", tmp_path, best=True).name == "iteration_000002"


def test_the_newest_checkpoint_is_skipped_with_a_message_if_it_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = make_trial(tmp_path / "pole", "000", [10.0, 20.0])
    (trial / "checkpoints/iteration_000002/state.npz").write_bytes(b"")
    assert checkpoint_named("pole", tmp_path, best=False).name == "iteration_000001"
    assert "state.npz is truncated" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["evaluate", "resume"])
def test_a_run_outside_runs_dir_is_refused_with_the_runs_dir_option_that_would_trust_it(
    tmp_path: Path, command: str, wording
) -> None:
    spec = {"algorithm": "ppo", "env": "my_lab:Room", "config": {}, "seed": 0}
    trial = make_trial(tmp_path / "my lab/pole", "000", [])
    TrialDirectory(trial).write_spec(spec)
    store = CheckpointStore(trial / "checkpoints", keep=9)
    store.commit(store.stage(1, Content({"algorithm": "ppo"}, spec), {"iteration": 1}))
    (trial.parent / "spec.yaml").write_text(json.dumps({"pole": spec}))
    done = rlrun(command, trial.parent, "--runs-dir", tmp_path)
    assert done.exit_code == 5
    assert done.stderr.rstrip() == wording()


def test_a_checkpoint_removed_while_it_is_read_is_a_checkpoint_error_not_a_bug(tmp_path: Path, wording) -> None:
    training = rlrun_api.Training("CartPole-v1", rlrun_api.PPO(num_envs_per_worker=1))
    with wording.raised(CheckpointError, "iteration_000001"):
        evaluation_env(tmp_path / "iteration_000001", training)


def test_a_newer_checkpoint_is_read_if_the_chosen_one_is_removed_before_it_is_read(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1)
    content = Content({"algorithm": "ppo"}, {"seed": 0}, {}, {})
    first = store.commit(store.stage(1, content, {"iteration": 1}))
    store.commit(store.stage(2, content, {"iteration": 2}))
    assert not first.exists()
    finds = iter([tmp_path / "iteration_000002"])
    assert read_next(first, lambda: next(finds), lambda path: (path.name, read_checkpoint(path).spec)) == (
        "iteration_000002",
        {"seed": 0},
    )


def test_a_damaged_checkpoint_that_still_exists_is_reported_instead_of_reading_another_one(tmp_path: Path) -> None:
    trial = make_trial(tmp_path / "pole", "000", [10.0])
    checkpoint = trial / "checkpoints/iteration_000001"
    (checkpoint / "state.npz").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"state\.npz is truncated"):
        read_next(checkpoint, lambda: tmp_path, read_checkpoint)


def test_the_error_for_a_trial_whose_checkpoints_are_all_damaged_names_each_of_them(tmp_path: Path, wording) -> None:
    trial = make_trial(tmp_path / "pole", "000", [10.0])
    (trial / "checkpoints/iteration_000001/spec.yaml").unlink()
    with wording.raised(CheckpointError, "spec.yaml"):
        checkpoint_named("pole", tmp_path, best=False)


def test_the_error_for_a_trial_without_checkpoints_says_that_it_has_none(tmp_path: Path, wording) -> None:
    make_trial(tmp_path / "pole", "000", [])
    with pytest.raises(CheckpointError, match=r"has no checkpoint$"):
        checkpoint_named("pole", tmp_path, best=False)
    with wording.raised(CheckpointError, "episode_return_mean"):
        checkpoint_named("pole", tmp_path, best=True)


def test_the_best_checkpoint_of_a_run_with_several_trials_is_that_of_its_best_trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wording
) -> None:
    make_trial(tmp_path / "pole", "000-lr=0.1", [10.0, 20.0])
    best = make_trial(tmp_path / "pole", "001-lr=0.2", [30.0, 15.0])
    assert checkpoint_named("pole", tmp_path, best=True) == best / "checkpoints/iteration_000001"
    assert capsys.readouterr().err == wording("episode_return_mean", "iteration_000001", "0.2")
    make_trial(tmp_path / "empty", "000", [])
    make_trial(tmp_path / "empty", "001", [])
    with wording.raised(CheckpointError, "episode_return_mean"):
        checkpoint_named("empty", tmp_path, best=True)


def test_the_error_for_a_run_with_several_trials_lists_their_names(tmp_path: Path, wording) -> None:
    make_trial(tmp_path / "pole", "000-lr=0.1", [10.0])
    make_trial(tmp_path / "pole", "001-lr=0.2", [10.0])
    with wording.raised(UsageError, "pole/000-lr", "pole/001-lr", "0.1"):
        checkpoint_named("pole", tmp_path, best=False)


def test_an_unknown_run_is_refused_with_the_closest_name(tmp_path: Path) -> None:
    make_trial(tmp_path / "cartpole-ppo", "000", [10.0])
    with pytest.raises(UsageError, match=r"cartpole-pop does not exist in the current folder .*'cartpole-ppo'\?"):
        checkpoint_named("cartpole-pop", tmp_path, best=False)
    with pytest.raises(UsageError, match=r"did you mean 'cartpole-ppo'\?"):
        run_named("cartpole-pop", tmp_path)


def test_the_error_for_resuming_a_trial_names_its_run(tmp_path: Path, wording) -> None:
    trial = make_trial(tmp_path / "pole", "000", [10.0])
    with wording.raised(UsageError):
        run_named(str(trial), tmp_path)


def test_resuming_a_folder_that_is_not_a_run_is_refused(tmp_path: Path, wording) -> None:
    with wording.raised(UsageError):
        run_named(str(tmp_path), tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["show"],
        ["resume"],
        ["diagnose"],
        ["plot"],
        ["report"],
        ["compare"],
        ["evaluate"],
        ["record"],
        ["league"],
        ["play"],
        ["demonstrate", "-o", "shown.npz"],
        ["train", "--algorithm", "ppo", "--env", "CartPole-v1", "--from"],
    ],
)
def test_every_command_exits_with_code_2_for_an_unknown_name(tmp_path: Path, words: list[str]) -> None:
    result = rlrun(*words, "nowhere", "--runs-dir", tmp_path)
    assert (result.exit_code, "nowhere does not exist in the current folder" in result.stderr) == (2, True), (
        result.stderr
    )


@pytest.mark.parametrize("command", ["evaluate", "record"])
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("empty", "not a checkpoint"),
        ("file", "not a directory"),
        ("other", "not a checkpoint"),
        ("cut", "manifest.json is truncated or altered"),
        ("flipped", "state.json was altered"),
        ("headless", "manifest.json is missing"),
    ],
)
def test_commands_exit_with_code_5_for_a_missing_or_damaged_checkpoint(
    tmp_path: Path, command: str, what: str, message: str
) -> None:
    checkpoint = make_trial(tmp_path / "pole", "000", [1.0]) / "checkpoints/iteration_000001"
    manifest, state = checkpoint / "manifest.json", checkpoint / "state.json"
    target = checkpoint
    if what in ("empty", "file", "other"):
        target = tmp_path / what
    if what == "empty":
        target.mkdir()
    elif what == "file":
        target.write_text("x")
    elif what == "other":
        target.mkdir()
        (target / "manifest.json").write_text('{"name": "a web page"}')
    elif what == "cut":
        manifest.write_bytes(manifest.read_bytes()[:-9])
    elif what == "flipped":
        state.write_bytes(state.read_bytes()[:-1] + b" ")
    elif what == "headless":
        manifest.unlink()
    output = ["-o", tmp_path / "x.gif"] if command == "record" else []
    result = rlrun(command, target, "--runs-dir", tmp_path, *output)
    assert (result.exit_code, message in result.stderr) == (5, True), result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("x.avi", "the name of a video must end with .mp4 or .gif"),
        ("video", "the name of a video must end with .mp4 or .gif"),
        ("no/such/x.gif", "does not exist"),
    ],
)
def test_an_unwritable_video_file_is_refused_before_the_run_is_looked_up(
    tmp_path: Path, output: str, message: str
) -> None:
    result = rlrun("record", "nowhere", "-o", tmp_path / output)
    assert result.exit_code == 2
    assert message in result.stderr


def test_the_error_for_a_missing_video_extra_names_the_pip_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlrun.cli.record.WRITERS", {".mp4": ("imageio", "no_such_encoder")})
    result = rlrun("record", "nowhere", "-o", tmp_path / "x.mp4")
    assert result.exit_code == 6
    assert "no_such_encoder" in result.stderr
    assert "pip install 'rlrun[video]'" in result.stderr


def test_runs_are_listed_newest_first_with_the_status_of_their_trials(tmp_path: Path) -> None:
    make_trial(tmp_path / "old", "000", [10.0, 30.0, 20.0])
    make_trial(tmp_path / "new", "000", [1.0])
    make_trial(tmp_path / "new", "001", [2.5], status="INTERRUPTED")
    for path in (tmp_path / "old").rglob("*.json"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    found = json.loads(rlrun("runs", "--json", "--runs-dir", tmp_path).stdout)["runs"]
    assert [(run["name"], run["best_return"], run["env_steps"]) for run in found] == [
        ("new", 2.5, 200),
        ("old", 30.0, 300),
    ]
    assert [trial["status"] for trial in found[0]["trials"]] == ["TERMINATED", "INTERRUPTED"]
    lines = rlrun("runs", "--runs-dir", tmp_path).stdout.splitlines()
    assert lines[0].split() == ["run", "status", "trials", "best", "trial", "metric", "env", "steps", "last", "change"]
    assert "1 terminated, 1 interrupted" in lines[1]
    assert lines[2].startswith("old  terminated")


def test_a_trial_recorded_as_running_but_without_a_process_is_shown_as_killed(tmp_path: Path) -> None:
    trial = TrialDirectory(make_trial(tmp_path / "pole", "000", [1.0], status="RUNNING"))
    assert "killed" in rlrun("runs", "--runs-dir", tmp_path).stdout
    trial.claim()
    try:
        assert "running" in rlrun("runs", "--runs-dir", tmp_path).stdout
    finally:
        trial.release()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
@pytest.mark.parametrize("command", ["status", "show", "plot", "report", "compare", "diagnose"])
def test_commands_that_read_a_run_say_that_a_run_in_another_users_folder_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    make_trial(tmp_path / "runs/pole", "000", [1.0])
    monkeypatch.chdir(tmp_path)
    assert "own run" not in rlrun(command, "pole").stderr
    os.chown(tmp_path / "runs", 54321, -1)
    said = f"{tmp_path}/runs belongs to user 54321, so rlrun does not trust this run\n"
    assert rlrun(command, "pole").stderr.count(said) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_the_list_of_runs_warns_about_runs_of_another_user(tmp_path: Path, wording) -> None:
    make_trial(tmp_path / "mine", "000", [1.0])
    os.chown(make_trial(tmp_path / "theirs", "000", [1.0]).parent, 54321, -1)
    assert rlrun("runs", "--runs-dir", tmp_path).stderr == wording()


@pytest.mark.parametrize("content", ["", "[]", '{"format": 1}', '{"format": 1, "trials": [3], "import_paths": []}'])
def test_a_run_with_a_damaged_run_json_is_reported_and_still_listed(tmp_path: Path, content: str, wording) -> None:
    make_trial(tmp_path / "whole", "000", [1.0])
    make_trial(tmp_path / "damaged", "000", [2.0])
    (tmp_path / "damaged/run.json").write_text(content)
    result = rlrun("runs", "--runs-dir", tmp_path)
    assert result.exit_code == 0
    rows = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert rows["damaged"].split()[:4] == ["damaged", "damaged,", "terminated", "1"]
    assert rows["whole"].split()[:2] == ["whole", "terminated"]
    assert result.stderr == wording("/damaged/run.json")
    listed = json.loads(rlrun("runs", "--json", "--runs-dir", tmp_path).stdout)["runs"]
    (told,) = [run for run in listed if run["problem"]]
    assert (told["name"], told["best_return"], told["env_steps"]) == ("damaged", 2.0, 100)


@pytest.mark.parametrize("content", ["", "[]", '{"name": 3}', '{"name": "001", "status": "GOOD", "seed": 0}', "\0\0\0"])
def test_a_damaged_trial_is_reported_and_the_others_are_still_listed(tmp_path: Path, content: str, wording) -> None:
    make_trial(tmp_path / "run", "000", [1.0])
    damaged = make_trial(tmp_path / "run", "001", [2.0]) / "trial.json"
    damaged.write_text(content)
    result = rlrun("runs", "--runs-dir", tmp_path)
    assert "1 terminated, 1 damaged" in result.stdout
    assert result.stderr == wording(damaged)
    damaged.unlink()
    assert rlrun("runs", "--runs-dir", tmp_path).stderr == wording(damaged.parent, "trial.json")


def test_a_checkpoint_is_found_even_if_the_run_json_of_its_run_is_damaged(tmp_path: Path) -> None:
    make_trial(tmp_path / "pole", "000", [10.0])
    (tmp_path / "pole/run.json").write_text("{")
    assert checkpoint_named("pole", tmp_path, best=False).name == "iteration_000001"


def test_an_empty_list_of_runs_says_how_to_start_one(tmp_path: Path) -> None:
    result = rlrun("runs", "--runs-dir", tmp_path / "none")
    assert result.exit_code == 0
    assert "rlrun train" in result.stdout
    assert json.loads(rlrun("runs", "--json", "--runs-dir", tmp_path / "none").stdout) == {"schema": 1, "runs": []}


def test_the_best_checkpoint_is_chosen_by_evaluations_if_there_are_any_and_commands_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = make_trial(tmp_path / "pole", "000", [174.7, 90.0, 80.0], evaluations={2: 500.0, 3: 454.0})
    assert checkpoint_named("pole", tmp_path, best=True) == trial / "checkpoints/iteration_000002"
    said = "the best checkpoint of 000 by evaluation/episode_return_mean: iteration_000002"
    assert capsys.readouterr().err == f"{said}\n"
    make_trial(tmp_path / "older", "000", [174.7, 90.0])
    lines = rlrun("runs", "--runs-dir", tmp_path, "--sort", "best").stdout.splitlines()
    assert [line.split()[:5] for line in lines[1:]] == [
        ["pole", "terminated", "1", "500.0", "evaluation"],
        ["older", "terminated", "1", "174.7", "return"],
    ]
    runs = json.loads(rlrun("runs", "--json", "--runs-dir", tmp_path).stdout)["runs"]
    (found,) = [run for run in runs if run["best"] == 500]
    assert (found["judged_by"], found["best_return"]) == ("evaluation/episode_return_mean", 174.7)


@pytest.mark.parametrize(
    ("target", "written"),
    [
        ("CartPole-v1", "CartPole-v1"),
        ("rlrun.toys:CartPoles", "{world: rlrun.toys:CartPoles}"),
        ("mpe2.simple_spread.simple_spread:raw_env", "{world: mpe2.simple_spread.simple_spread:raw_env}"),
        ("mpe2.simple_spread_v3", "{pettingzoo: mpe2.simple_spread_v3}"),
        ("rlrun.toys:ConstantReward", "rlrun.toys:ConstantReward"),
    ],
)
def test_worlds_can_be_given_by_their_names(target: str, written: str) -> None:
    assert env_named(target) == written
