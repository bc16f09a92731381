"""The view of a run on stderr."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlrun.algorithms.ppo import PPO
from rlrun.cli.watch import RunWatcher, watching
from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.runs.events import (
    RunEvent,
    RunFinished,
    RunNote,
    RunResources,
    RunStarted,
    RunStopping,
    RunWaiting,
    TrialAdded,
    TrialEvent,
    TrialNote,
    Watcher,
)
from rlrun.experiments.runs.outcome import resume_command
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.runs.trial_status import Status
from rlrun.experiments.spec.experiment import TrialSpec
from tests.command import rlrun

SmallTrial = Callable[[int], TrialSpec]


@pytest.fixture
def small_trial() -> SmallTrial:
    def make(seed: int) -> TrialSpec:
        return TrialSpec.parse(
            {
                "name": f"{seed:03d}-seed={seed}",
                "index": seed,
                "configuration": 0,
                "seed": seed,
                "params": {},
                "experiment": "tiny",
                "algorithm": "ppo",
                "env": "CartPole-v1",
                "config": PPO.Config(),
                "stop": {"env_steps": 100},
                "checkpoint": {},
                "evaluation": None,
                "resources": {},
                "expect": None,
            }
        )

    return make


def test_a_closed_stderr_pipe_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    with open(write, "w") as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        with RunWatcher() as watcher:
            os.close(read)
            watcher(RunStarted("tiny", Path("runs/tiny"), "local", False, (), False, stderr))
            watcher(RunFinished(Path("runs/tiny"), (), 1.0))


def watched(monkeypatch: pytest.MonkeyPatch, events: list[RunEvent], *, names_experiment: bool = False) -> list[str]:
    stderr = io.StringIO()
    monkeypatch.setattr("sys.stderr", stderr)
    with RunWatcher(names_experiment=names_experiment) as watcher:
        for event in events:
            watcher(event)
    return stderr.getvalue().splitlines()


def test_progress_is_printed_as_plain_lines_if_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, small_trial: SmallTrial, wording
) -> None:
    lines = watched(
        monkeypatch,
        [
            RunStarted("tiny", Path("runs/tiny-2"), "ray", True, (small_trial(0),), False, sys.stdout, expected=2),
            RunNote("starting Ray, as two trials are to run at once"),
            TrialEvent("000-seed=0", "RUNNING", place="here:7"),
            RunResources(1, 2, 0, 0),
            TrialAdded(small_trial(1)),
            TrialNote("001-seed=1", "compiles"),
            TrialEvent("001-seed=1", "ERROR", error="no such env"),
            RunStopping("SIGINT"),
            RunFinished(Path("runs/tiny-2"), (), 1.0),
        ],
    )
    assert lines == wording("runs/tiny-2", "here:7", "000")


@pytest.mark.parametrize(("status", "said"), [("ERROR", True), ("TERMINATED", False)])
def test_a_run_whose_trials_all_failed_shows_the_command_to_retry_them(
    status: Status, said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = TrialResult("000", Path("runs/tiny/000"), "tiny", "ERROR", last_result={"iteration": 1})
    other = replace(failed, name="001", status=status)
    lines = watched(monkeypatch, [RunFinished(Path("runs/tiny"), (failed, other), 1.0)])
    command = resume_command(Path("runs/tiny"), retry_failed=True)
    assert [line.partition(": ")[2] for line in lines] == [command] * said


def test_waiting_for_nodes_is_reported_when_it_starts_and_when_it_changes(
    monkeypatch: pytest.MonkeyPatch, small_trial: SmallTrial, wording
) -> None:
    lines = watched(
        monkeypatch,
        [
            RunStarted("tiny", Path("runs/tiny"), "ray", True, (small_trial(0),), False, sys.stdout),
            RunWaiting("000-seed=0", "3 CPUs", 0.0, 900.0, (), ()),
            RunWaiting("000-seed=0", "3 CPUs", 0.0, 900.0, ("cpu", "cpu"), ()),
            RunWaiting("000-seed=0", "3 CPUs", 0.0, 900.0, ("cpu", "cpu"), ()),
            RunWaiting("000-seed=0", "3 CPUs", 0.0, 900.0, (), ("cpu (no quota)",)),
            RunStopping("SIGINT"),
            RunFinished(Path("runs/tiny"), (), 1.0),
        ],
    )
    assert lines == wording("runs/tiny", "000-seed=0", "2 x cpu", "no quota")


def test_progress_lines_name_their_experiment_if_there_are_several(
    monkeypatch: pytest.MonkeyPatch, small_trial: SmallTrial, wording
) -> None:
    events: list[RunEvent] = []
    for name in ("a", "b"):
        events += [
            RunStarted(name, Path(f"runs/{name}"), "local", False, (small_trial(0),), True, sys.stdout),
            TrialEvent("000-seed=0", "RUNNING"),
            RunFinished(Path(f"runs/{name}"), (), 1.0),
        ]
    assert watched(monkeypatch, events, names_experiment=True) == wording("runs/a", "runs/b", "000")


def test_json_progress_prints_one_line_per_event_and_the_result_last(
    tmp_path: Path, small_trial: SmallTrial, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    events: list[RunEvent] = [
        RunStarted("tiny", tmp_path, "local", False, (small_trial(0),), False, sys.stdout, expected=1),
        TrialAdded(small_trial(1)),
        TrialEvent("000-seed=0", "RUNNING", {"iteration": 1, "learner/kl": float("nan")}, place="here:7"),
        TrialNote("000-seed=0", "compiles"),
        RunNote("starting Ray"),
        RunWaiting("000-seed=0", "3 CPUs", 1.0, 900.0, ("cpu",), ()),
        RunResources(1, 2, 0, 0),
        RunStopping("SIGINT"),
        RunFinished(tmp_path, (), 1.0),
    ]

    def run(*args: Any, watch: Watcher, **options: Any) -> list[TrialResult]:
        for event in events:
            watch(event)
        print("what an env prints")
        return []

    monkeypatch.setattr("rlrun.experiments.launch.run.run", run)
    done = rlrun("train", "cartpole/ppo", "--progress", "json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["event"] for line in lines] == [
        "run_started", "trial_added", "trial", "note", "note", "waiting", "resources", "stopping", "run_finished",
        "result",
    ]  # fmt: skip
    assert all(line["schema"] == 1 for line in lines)
    started, added, trial, *notes, _, _, _, finished, result = lines
    assert [(note["trial"], note["text"]) for note in notes] == [("000-seed=0", "compiles"), (None, "starting Ray")]
    assert (started["directory"], started["trials"]) == (
        str(tmp_path), [{"name": "000-seed=0", "seed": 0, "params": {}}]
    )  # fmt: skip
    assert (added["trial"], trial["result"]) == ("001-seed=1", {"iteration": 1, "learner/kl": None})
    assert (finished["seconds"], result["trials"]) == (1.0, [])
    assert done.stderr == wording()


def test_an_error_is_the_last_line_of_json_progress() -> None:
    done = rlrun("train", "--seed", "x", "--progress=json")
    (line,) = map(json.loads, done.stdout.splitlines())
    assert (done.exit_code, line["event"], line["error"]["exit_code"]) == (2, "error", 2)


@pytest.mark.parametrize(("words", "told"), [(["-q"], ""), (["--progress", "lines"], "tiny: 0 trials, in runs/tiny\n")])
def test_a_quiet_command_prints_no_progress(words: list[str], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*args: Any, watch: Watcher, **options: Any) -> list[TrialResult]:
        watch(RunStarted("tiny", Path("runs/tiny"), "local", False, (), False, sys.stdout))
        watch(RunFinished(Path("runs/tiny"), (), 1.0))
        return []

    monkeypatch.setattr("rlrun.experiments.launch.run.run", run)
    assert rlrun("train", "cartpole/ppo", *words).stderr == told


def test_the_options_quiet_and_progress_cannot_be_combined(wording) -> None:
    with wording.raised(UsageError):
        watching("lines", quiet=True)
