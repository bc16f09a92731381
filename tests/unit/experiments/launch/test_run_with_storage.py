"""A run whose directory is copied to a storage, and runs that continue from the copy."""

import json
import platform
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import rlrun
from rlrun.cli.main import cli
from rlrun.engine.messages.errors import Interrupted, UsageError
from rlrun.experiments.runs import run_upload
from rlrun.experiments.runs.copy_owner import OWNERS
from rlrun.experiments.runs.events import RunEvent, RunFound, RunStarted, TrialEvent, Watcher
from rlrun.experiments.runs.run_directory import RUN_FILE
from rlrun.experiments.trial.results import RESULT_FILE, read_results
from tests.files import files
from tests.results import all_numbers


def spec(storage: str, iterations: int = 6) -> dict[str, Any]:
    entry = {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "stop": {"iteration": iterations},
        "storage": storage,
        "config": {
            "train_batch_size": 64,
            "min_env_steps_per_iteration": 0,
            "minibatch_size": 32,
            "num_epochs": 1,
            "num_envs_per_worker": 2,
            "model": {"hiddens": [8]},
        },
        "checkpoint": {"every": 2},
    }
    return {"steady": entry}


def test_a_run_whose_machine_is_lost_continues_on_another_machine_from_its_copy(tmp_path: Path) -> None:
    storage = f"file://{tmp_path}/storage"

    def lose_power_at(iteration: int) -> Watcher:
        def watch(event: RunEvent) -> None:
            if isinstance(event, TrialEvent) and event.result is not None and event.result["iteration"] == iteration:
                raise KeyboardInterrupt

        return watch

    with pytest.raises(Interrupted):
        rlrun.run(spec(storage), runs_dir=tmp_path / "lost", watch=lose_power_at(3))
    with pytest.raises(Interrupted):  # the run updates its copy at the start, but not when power is lost
        rlrun.resume(tmp_path / "lost/steady", watch=lose_power_at(5))
    shutil.rmtree(tmp_path / "lost")

    uri = f"{storage}/steady"
    assert (tmp_path / "storage/steady/000-seed=0/checkpoints/iteration_000003").is_dir()
    assert not (tmp_path / "storage/steady/000-seed=0/checkpoints/iteration_000004").is_dir()
    told = CliRunner().invoke(cli, ["resume", uri, "--runs-dir", str(tmp_path / "here"), "--json"])
    assert told.exit_code == 0, told.output
    (trial,) = rlrun.resume(tmp_path / "here/steady")
    assert trial.status == "TERMINATED"
    (still,) = rlrun.run({"steady": {**spec("x")["steady"], "storage": None}}, runs_dir=tmp_path / "still")
    assert all_numbers(trial.results()) == all_numbers(still.results())
    assert files(tmp_path / "storage/steady").keys() == files(tmp_path / "here/steady").keys()


def test_resuming_a_run_that_continued_on_another_machine_replaces_its_outdated_directory(
    tmp_path: Path, wording
) -> None:
    job = spec(str(tmp_path / "storage"))
    said: list[str] = []

    def interrupt_at(iteration: int) -> Watcher:
        def watch(event: RunEvent) -> None:
            if isinstance(event, TrialEvent) and event.result is not None and event.result["iteration"] == iteration:
                signal.raise_signal(signal.SIGINT)
            if isinstance(event, RunFound):
                said.append(event.text)

        return watch

    for machine, iteration in (("a", 2), ("b", 4)):
        with pytest.raises(Interrupted):
            rlrun.run(job, runs_dir=tmp_path / machine, resume=True, watch=interrupt_at(iteration))
    with wording.raised(UsageError, tmp_path / "a/steady", host=platform.node(), since=since(tmp_path / "storage")):
        rlrun.resume(tmp_path / "a/steady")
    (trial,) = rlrun.run(job, runs_dir=tmp_path / "a", resume=True, watch=interrupt_at(99))
    assert said[-1] == wording("a/steady-out-of-date")
    assert len(read_results(tmp_path / "a/steady-out-of-date/000-seed=0")) == 2
    (still,) = rlrun.run({"steady": {**job["steady"], "storage": None}}, runs_dir=tmp_path / "still")
    assert (trial.directory.parent, len(trial.results())) == (tmp_path / "a/steady", 6)
    assert all_numbers(trial.results()) == all_numbers(still.results())
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["steady", "steady-out-of-date"]


@pytest.mark.parametrize(
    ("losses", "is_copied"), [((("first", 3), ("second", 1)), False), ((("second", 3), ("second", 5)), True)], ids=str
)
def test_a_chain_of_stages_that_loses_its_disk_twice_continues_from_its_copies_with_equal_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, losses: tuple[tuple[str, int], ...], is_copied: bool
) -> None:
    monkeypatch.setattr(run_upload, "COPY_EVERY_S", 0.01 if is_copied else 1e6)
    monkeypatch.setattr(run_upload, "SHARE", 1e6)

    def job(storage: str | None) -> dict[str, Any]:
        entry = {**spec("x")["steady"], "storage": storage, "seeds": 2}
        return {"steady": {**entry, "stages": {"first": {}, "second": {"checkpoint": {"every": 2}}}}}

    def lose_power_at(machine: Path, stage: str, iteration: int) -> Watcher:
        now = ""

        def watch(event: RunEvent) -> None:
            nonlocal now
            if isinstance(event, RunStarted):
                now = event.experiment
            result = event.result if isinstance(event, TrialEvent) else None
            if now == f"steady.{stage}" and result is not None and result["iteration"] == iteration:
                rows = f"{now}/{event.trial}/{RESULT_FILE}"
                while is_copied and (tmp_path / "storage" / rows).read_bytes() != (machine / rows).read_bytes():
                    time.sleep(0.01)
                raise KeyboardInterrupt

        return watch

    for number, (stage, iteration) in enumerate(losses):
        machine = tmp_path / f"machine-{number}"
        watch = lose_power_at(machine, stage, iteration)
        with pytest.raises(Interrupted):
            rlrun.run(job(str(tmp_path / "storage")), runs_dir=machine, executor="local", resume=True, watch=watch)
        shutil.rmtree(machine)
    resumed = rlrun.run(job(str(tmp_path / "storage")), runs_dir=tmp_path / "last", executor="local", resume=True)
    calm = rlrun.run(job(None), runs_dir=tmp_path / "calm", executor="local")
    assert [trial.status for trial in resumed] == ["TERMINATED"] * 4
    assert [all_numbers(trial.results()) for trial in resumed] == [all_numbers(trial.results()) for trial in calm]


def since(storage: Path) -> str:
    (record,) = (storage / "steady" / OWNERS).iterdir()
    return str(json.loads(record.read_text())["started"])


def test_a_new_run_gets_a_name_that_is_also_free_in_its_storage(tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    (first,) = rlrun.run(spec(str(storage), 1), runs_dir=tmp_path / "a")
    (second,) = rlrun.run(spec(str(storage), 1), runs_dir=tmp_path / "b")
    assert (first.directory.parent.name, second.directory.parent.name) == ("steady", "steady-2")
    assert json.loads((storage / "steady-2" / RUN_FILE).read_text())["copy"] == f"{storage}/steady-2"
    assert files(storage / "steady-2") == files(tmp_path / "b/steady-2")


def test_an_unreachable_storage_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="storage weird://x/steady"):
        rlrun.run(spec("weird://x"), runs_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_can_be_resumed_directly_in_its_storage_copy(tmp_path: Path) -> None:
    rlrun.run(spec(str(tmp_path / "storage"), 2), runs_dir=tmp_path / "lost")
    shutil.rmtree(tmp_path / "lost")
    (trial,) = rlrun.resume(tmp_path / "storage/steady", extend={"iteration": 4})
    assert trial.last_result["iteration"] == 4
    assert len(all_numbers(trial.results())) == 4
