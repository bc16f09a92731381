"""A run's directory is the whole truth of the run."""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlrun.engine.messages.errors import RlrunError, RunDamaged, UsageError
from rlrun.experiments.runs.provenance import commits
from rlrun.experiments.runs.run_directory import RunDirectory, default_runs_dir, follow_import_paths, import_paths
from rlrun.experiments.runs.spec_changes import extend
from rlrun.experiments.spec.load import load_experiments, parse_experiments

SPEC = {
    "algorithm": "ppo",
    "env": "CartPole-v1",
    "seeds": 2,
    "stop": {"iteration": 1},
    "config": {"lr": {"grid_search": [1e-3, 3e-4]}},
}
TRIALS = ["000-lr=0.001-seed=0", "001-lr=0.001-seed=1", "002-lr=0.0003-seed=0", "003-lr=0.0003-seed=1"]


def new_run(runs: Path, name: str = "sweep") -> RunDirectory:
    (experiment,) = parse_experiments({"sweep": SPEC})
    return RunDirectory.create(runs, name, experiment, experiment.trials(), "ray")


def test_a_new_run_contains_its_run_json_and_all_of_its_trials_as_pending(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    table = json.loads((run.path / "run.json").read_text())
    assert table["experiment"] == "sweep"
    assert table["executor"] == "ray"
    assert table["trials"] == TRIALS
    assert set(table["versions"]) == {"python", "platform", "rlrun", "torch", "ray", "gymnasium", "numpy"}
    assert set(table["machine"]) == {"cpu", "gpu"}
    assert table["commits"] == commits([Path.cwd()])
    assert [run.record(name).status for name in TRIALS] == ["PENDING"] * 4
    assert [result.params for result in run.results()][2:] == [{"lr": 3e-4}, {"lr": 3e-4}]


def test_the_stored_spec_of_a_run_loads_as_an_equivalent_experiment(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    (again,) = load_experiments([run.path / "spec.yaml"])
    (first,) = parse_experiments({"sweep": SPEC})
    assert again.trials() == first.trials() == [run.trial(name) for name in TRIALS]


def test_a_run_that_was_allowed_to_exceed_the_trial_limit_can_be_read(tmp_path: Path) -> None:
    immense = {**SPEC, "config": {"lr": {"uniform": [0, 1]}}, "searcher": "optuna", "num_samples": 6_000}
    (experiment,) = parse_experiments({"sweep": immense}, max_trials=12_000)
    run = RunDirectory.create(tmp_path, "sweep", experiment, experiment.trials(), "ray")
    assert run.experiment().to_data() == experiment.to_data()


def test_a_run_whose_name_is_taken_gets_a_numbered_suffix(tmp_path: Path) -> None:
    assert [new_run(tmp_path).path.name for _ in range(3)] == ["sweep", "sweep-2", "sweep-3"]


def test_a_moved_run_opens_with_the_same_content(tmp_path: Path) -> None:
    made = new_run(tmp_path / "here")
    moved = shutil.move(made.path, tmp_path / "there")
    opened = RunDirectory.open(Path(moved))
    assert opened.table == made.table
    assert [result.directory for result in opened.results()] == [tmp_path / "there" / name for name in TRIALS]


def test_an_extension_of_a_run_that_failed_partway_can_be_repeated(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    spec = run.path / TRIALS[1] / "spec.yaml"
    spec.rename(tmp_path / "elsewhere")
    with pytest.raises(RunDamaged, match="does not exist"):
        extend(run, {"iteration": 2})
    (tmp_path / "elsewhere").rename(spec)
    extend(run, {"iteration": 2})
    assert [run.trial(name).stop.bounds["iteration"] for name in TRIALS] == [2, 2, 2, 2]
    assert run.experiment().stop.bounds == {"iteration": 2}


def test_finished_trials_never_count_as_unfinished_and_failed_trials_do_only_with_retry_failed(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.mark(TRIALS[0], "TERMINATED")
    run.mark(TRIALS[1], "ERROR", "boom")
    run.mark(TRIALS[2], "RUNNING")
    assert run.unfinished(retry_failed=False) == TRIALS[2:]
    assert run.unfinished(retry_failed=True) == TRIALS[1:]
    assert [result.error for result in run.results()] == ["", "boom", "", ""]
    assert (run.path / TRIALS[1] / "error.txt").read_text() == "boom"


@pytest.mark.parametrize("content", ["", "[]", '{"format": 1}', "{", "[" * 100_000], ids=range(5))
def test_a_damaged_table_of_trials_is_refused_with_its_file_name(tmp_path: Path, content: str, wording) -> None:
    (tmp_path / "run.json").write_text(content)
    with wording.raised(RunDamaged, "run.json"):
        RunDirectory.open(tmp_path)


@pytest.mark.parametrize("name", ["../elsewhere", "/etc", "..", ""])
def test_a_trial_name_that_points_outside_the_run_is_refused(tmp_path: Path, name: str, wording) -> None:
    run = new_run(tmp_path)
    table = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**table, "trials": [name]}))
    with wording.raised(RunDamaged, "trials.0"):
        RunDirectory.open(run.path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"sweep: [1,\n  b: }", "cannot parse: while parsing"),
        (b"\xff\xfe", "cannot parse: 'utf-8' codec"),
        (b"{}", "cannot parse: 'sweep' is missing"),
        (b"sweep:", "cannot parse: sweep is not a mapping"),
        (b"# sha256: " + b"0" * 64 + b"\nsweep: {}", "cannot parse: it was altered"),
        (b"sweep: {algorithm: ppo, env: CartPole-v1, stopp: {iteration: 1}}", "sweep.stopp: unknown key"),
        (None, "does not exist"),
    ],
)
def test_a_damaged_spec_of_a_run_is_refused_with_its_file_name(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    run = new_run(tmp_path)
    if content is None:
        (run.path / "spec.yaml").unlink()
    else:
        (run.path / "spec.yaml").write_bytes(content)
    with pytest.raises(RlrunError, match=f"{run.path / 'spec.yaml'}: {message}"):
        run.experiment()


def test_a_damaged_spec_of_a_trial_is_refused_with_its_file_name(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    spec = run.path / TRIALS[0] / "spec.yaml"
    for content, message in [
        ("name: x", "'algorithm' is missing"),
        ("algorithm: ppo\nconfig: {lrr: 1}", "lrr: unknown"),
    ]:
        spec.write_text(content)
        with pytest.raises(RlrunError, match=f"{spec}: .*{message}"):
            run.trial(TRIALS[0])


def test_a_path_that_is_not_a_run_is_refused(tmp_path: Path, wording) -> None:
    with wording.raised(UsageError, "run.json"):
        RunDirectory.open(tmp_path / "nowhere")


def test_a_run_of_a_newer_rlrun_version_is_refused(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    table = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**table, "format": 2}))
    with pytest.raises(UsageError, match="made by a newer rlrun"):
        RunDirectory.open(run.path)


def test_a_run_can_be_locked_by_only_one_process_at_a_time(tmp_path: Path, wording) -> None:
    run = new_run(tmp_path)
    take = "import sys\nfrom pathlib import Path\nfrom rlrun.experiments.runs.run_directory import RunDirectory\n"
    take += "with RunDirectory.open(Path(sys.argv[1])).locked(): print('taken', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", take, run.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "taken\n"
        with wording.raised(UsageError, pid=other.pid), run.locked():
            pass
        other.kill()
        other.wait()
    with run.locked():
        assert (run.path / ".lock").read_text() == f"{os.getpid()} {platform.node()}"


def test_only_a_run_without_results_can_be_discarded(tmp_path: Path) -> None:
    fresh, begun = new_run(tmp_path), new_run(tmp_path)
    fresh.mark(TRIALS[3], "ERROR")
    (begun.path / TRIALS[3]).mkdir(exist_ok=True)
    (begun.path / TRIALS[3] / "result.json").write_text('{"iteration": 1}\n')
    fresh.discard_if_empty()
    begun.discard_if_empty()
    assert [path.name for path in tmp_path.iterdir()] == ["sweep-2"]


def test_the_runs_folder_can_be_set_by_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLRUN_RUNS", raising=False)
    assert default_runs_dir() == Path("runs")
    monkeypatch.setenv("RLRUN_RUNS", "/somewhere")
    assert default_runs_dir() == Path("/somewhere")


def test_the_users_import_paths_are_stored_for_a_resume_but_those_of_python_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), str(tmp_path / "gone")])
    kept = import_paths()
    assert str(tmp_path) in kept
    assert str(tmp_path / "gone") not in kept
    assert not [path for path in kept if "site-packages" in path]
    monkeypatch.setattr(sys, "path", ["/first"])
    follow_import_paths(["/first", str(tmp_path)])
    assert sys.path == ["/first", str(tmp_path)]


def test_a_runs_folder_that_is_a_file_raises_a_usage_error(tmp_path: Path, wording) -> None:
    (tmp_path / "runs").write_text("")
    with wording.raised(UsageError):
        new_run(tmp_path / "runs")
