"""The view of a run on stderr."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rlrun.algorithms.ppo import PPO
from rlrun.cli.watch import RunWatcher
from rlrun.runs.events import (
    RunEvent,
    RunFinished,
    RunResources,
    RunStarted,
    RunStopping,
    TrialAdded,
    TrialEvent,
    TrialNote,
)
from rlrun.spec.experiment import TrialSpec

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


def test_a_log_that_nobody_reads_any_more_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_off_a_terminal_a_run_is_told_in_lines(monkeypatch: pytest.MonkeyPatch, small_trial: SmallTrial) -> None:
    lines = watched(
        monkeypatch,
        [
            RunStarted("tiny", Path("runs/tiny"), "ray", True, (small_trial(0),), False, sys.stdout, expected=2),
            TrialEvent("000-seed=0", "RUNNING", place="here:7"),
            RunResources(1, 2, 0, 0),
            TrialAdded(small_trial(1)),
            TrialNote("001-seed=1", "compiles"),
            TrialEvent("001-seed=1", "ERROR", error="no such env"),
            RunStopping("SIGINT"),
            RunFinished(Path("runs/tiny"), (), 1.0),
        ],
    )
    assert lines == [
        "tiny: 2 trials on Ray, in runs/tiny",
        "000-seed=0: starts on here:7",
        "001-seed=1: compiles",
        "001-seed=1: [error]",
        "SIGINT: saves and stops at the end of this iteration (it is the first); once more ends it at once",
    ]


def test_where_several_experiments_run_each_line_names_its_own(
    monkeypatch: pytest.MonkeyPatch, small_trial: SmallTrial
) -> None:
    events: list[RunEvent] = []
    for name in ("a", "b"):
        events += [
            RunStarted(name, Path(f"runs/{name}"), "local", False, (small_trial(0),), True, sys.stdout),
            TrialEvent("000-seed=0", "RUNNING"),
            RunFinished(Path(f"runs/{name}"), (), 1.0),
        ]
    assert watched(monkeypatch, events, names_experiment=True) == [
        "a: 1 trial resumed, in runs/a",
        "a: 000-seed=0: starts",
        "b: 1 trial resumed, in runs/b",
        "b: 000-seed=0: starts",
    ]
