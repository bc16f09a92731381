"""Loggers get everything in order, and never delay or end the trial that they log."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.spec.loggers import LoggersConfig, TrialLogger
from rlrun.experiments.trial import trial_loggers
from rlrun.experiments.trial.trial_directory import TrialStatus
from rlrun.experiments.trial.trial_loggers import TrialLoggers, loggers_of, require_loggers

ROOT = Path(__file__).resolve().parents[4]


class Notebook(TrialLogger):
    """Records what it is told; fails or waits where a test wants it to."""

    def __init__(self, fails_at: str = "", waits_at: str = "", waits_for: threading.Event | None = None) -> None:
        self.told: list[Any] = []
        self._fails_at = fails_at
        self._waits_at = waits_at
        self._waits_for = waits_for

    def start(self, trial: Mapping[str, Any], directory: Path, known_as: str | None) -> str:
        self._note("start", (trial["name"], known_as))
        return known_as or "page 7"

    def log(self, row: Mapping[str, Any]) -> None:
        self._note("log", row["iteration"])

    def finish(self, status: str) -> None:
        self._note("finish", status)

    def _note(self, kind: str, what: Any) -> None:
        if kind == self._fails_at:
            raise ConnectionError(f"the network is down\nat {kind}")
        if self._waits_for is not None and kind == self._waits_at:
            self._waits_for.wait(600)
        self.told.append(what)


def test_a_logger_receives_the_start_each_result_and_the_end_in_order(
    small_trial: Callable[..., TrialSpec], tmp_path: Path
) -> None:
    notebook = Notebook()
    loggers = TrialLoggers({"notebook": lambda: notebook}, small_trial(), tmp_path, pytest.fail)
    for iteration in range(1, 101):
        loggers.log({"iteration": iteration})
    loggers.finish("TERMINATED")
    loggers.finish("TERMINATED")
    assert notebook.told == [("000-seed=0", None), *range(1, 101), "TERMINATED"]


def test_a_resumed_trial_keeps_its_id_in_the_logging_service(
    small_trial: Callable[..., TrialSpec], tmp_path: Path
) -> None:
    notebook = Notebook()
    for status in ("INTERRUPTED", "TERMINATED"):
        TrialLoggers({"notebook": lambda: notebook}, small_trial(), tmp_path, pytest.fail).finish(status)
    assert notebook.told == [("000-seed=0", None), "INTERRUPTED", ("000-seed=0", "page 7"), "TERMINATED"]
    assert (tmp_path / "notebook_id.txt").read_text() == "page 7\n"


@pytest.mark.parametrize("kind", ["make", "start", "log", "finish"])
def test_a_failing_logger_is_reported_once_and_other_loggers_continue(
    small_trial: Callable[..., TrialSpec], tmp_path: Path, kind: str, wording
) -> None:
    notebook, broken = Notebook(), Notebook(fails_at=kind)

    def make() -> Notebook:
        if kind == "make":
            raise ConnectionError("the network is down\nat make")
        return broken

    announced: list[str] = []
    loggers = TrialLoggers({"cloud": make, "notebook": lambda: notebook}, small_trial(), tmp_path, announced.append)
    for iteration in range(1, 4):
        loggers.log({"iteration": iteration})
    loggers.finish("TERMINATED")
    assert announced == wording(kind)
    assert notebook.told == [("000-seed=0", None), 1, 2, 3, "TERMINATED"]


def test_an_unresponsive_logger_delays_neither_results_nor_the_end_of_the_trial(
    small_trial: Callable[..., TrialSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.setattr(trial_loggers, "MAX_WAITING_ROWS", 5)
    monkeypatch.setattr(trial_loggers, "START_TIMEOUT_S", 0.05)
    answer = threading.Event()
    notebook = Notebook(waits_at="start", waits_for=answer)
    announced: list[str] = []
    loggers = TrialLoggers(
        {"cloud": lambda: notebook}, small_trial(), tmp_path, announced.append, delivery_timeout_s=0.05
    )
    for iteration in range(1, 11):
        loggers.log({"iteration": iteration})
    loggers.finish("TERMINATED")
    assert announced == wording()
    assert notebook.told == []
    answer.set()


@pytest.mark.parametrize(
    ("waits_at", "told"),
    [
        ("start", "cloud is unreachable: it may lack some results"),
        ("log", "cloud has not received all results within 0 s: it may lack some"),
    ],
)
def test_a_logger_that_does_not_confirm_the_end_is_reported(
    small_trial: Callable[..., TrialSpec],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    waits_at: str,
    told: str,
) -> None:
    monkeypatch.setattr(trial_loggers, "START_TIMEOUT_S", 0.05 if waits_at == "start" else 600)
    answer = threading.Event()
    announced: list[str] = []
    notebook = Notebook(waits_at=waits_at, waits_for=answer)
    loggers = TrialLoggers({"cloud": lambda: notebook}, small_trial(), tmp_path, announced.append, delivery_timeout_s=0)
    loggers.log({"iteration": 1})
    loggers.finish("TERMINATED")
    assert announced == [told]
    answer.set()


def test_a_missing_logger_package_is_reported_with_its_pip_command(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    monkeypatch.setattr(trial_loggers, "find_spec", lambda name: None)
    with wording.raised(UsageError, "rlrun[wandb]"):
        require_loggers(LoggersConfig.parse(["wandb"]))
    require_loggers(LoggersConfig())


def test_each_service_that_a_spec_can_name_has_a_logger() -> None:
    config = LoggersConfig.parse(["wandb", "mlflow"])
    assert list(loggers_of(config)) == ["wandb", "mlflow"]
    assert [type(make()).__name__ for make in loggers_of(config).values()] == ["WandbLogger", "MlflowLogger"]


def test_a_custom_logger_is_made_from_its_settings_and_keeps_its_id_after_a_resume(
    small_trial: Callable[..., TrialSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    file = tmp_path / "results.jsonl"
    path = "my_lab.json_lines:JsonLines"
    trial = small_trial(loggers={path: {"path": str(file), "metrics": ["iteration"]}})
    statuses: tuple[TrialStatus, ...] = ("INTERRUPTED", "TERMINATED")
    for iteration, status in enumerate(statuses, 1):
        loggers = TrialLoggers(loggers_of(trial.loggers), trial, tmp_path, pytest.fail)
        loggers.log({"iteration": iteration, "env_steps": 7})
        loggers.finish(status)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {line.pop("trial") for line in lines} == {f"{tmp_path.parent.name}/000-seed=0"}
    assert lines == [{"iteration": 1}, {"status": "INTERRUPTED"}, {"iteration": 2}, {"status": "TERMINATED"}]
    assert (tmp_path / "my_lab.json_lines.JsonLines_id.txt").exists()
