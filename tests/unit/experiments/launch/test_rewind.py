"""A run is rewound to an earlier checkpoint, exactly and without losing what came later."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rlrun
from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.runs.events import RunEvent, TrialRewound
from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.runs.trial_result import TrialResult

ENTRY = {
    "algorithm": "ppo",
    "env": "CartPole-v1",
    "stop": {"env_steps": 192},
    "checkpoint": {"every": 1, "keep": 9},
    "config": {
        "train_batch_size": 32,
        "minibatch_size": 32,
        "num_epochs": 1,
        "num_envs_per_worker": 4,
        "min_env_steps_per_iteration": 0,
        "model": {"hiddens": [8]},
        "compile": False,
    },
}
STEPS = [32, 63, 92, 123, 154, 185, 214]  # an env takes no step when it begins a new episode


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    rlrun.run({"pole": ENTRY}, runs_dir=runs)
    return runs / "pole"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "pole")


def numbers(trial: TrialResult) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in row.items() if "time" not in name and not name.endswith("_per_s")}
        for row in trial.results()
    ]


def state(run: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".lock"}


def test_a_rewound_run_repeats_its_later_rows_and_the_original_ones_are_set_aside(run: Path) -> None:
    (before,) = RunDirectory.open(run).results()
    first, rows = numbers(before), (before.directory / "result.json").read_bytes()
    assert [row["env_steps"] for row in first] == STEPS
    events: list[RunEvent] = []
    (after,) = rlrun.resume(run, from_step=100, watch=events.append)
    assert numbers(after) == first
    assert after.status == "TERMINATED"
    aside = before.directory / "set_aside" / "1"
    assert events[0] == TrialRewound(
        before.name, before.directory / "checkpoints/iteration_000003", "92 env steps", aside
    )
    assert (aside / "result.json").read_bytes() == rows
    assert sorted(path.name for path in (aside / "checkpoints").iterdir()) == [
        "iteration_000004", "iteration_000005", "iteration_000006", "iteration_000007",
    ]  # fmt: skip
    record = RunDirectory.open(run).record(before.name)
    assert record.exact_resume is True


def test_each_rewind_sets_files_aside_in_a_folder_of_its_own_and_skips_damaged_checkpoints(run: Path) -> None:
    trial = run / "000-seed=0"
    (trial / "checkpoints/iteration_000003/state.npz").write_bytes(b"")
    events: list[RunEvent] = []
    for step in (100, 64):
        rlrun.resume(run, from_step=step, watch=events.append)
    told = [event.steps for event in events if isinstance(event, TrialRewound)]
    assert told == ["63 env steps", "63 env steps"]
    assert sorted(path.name for path in (trial / "set_aside").iterdir()) == ["1", "2"]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            31,
            "has no complete checkpoint at or before 31 env steps, only those at 32, 63, 92, 123, 154, 185, 214",
        ),
        (500, "no trial has gone beyond 500 steps: 000-seed=0 has 214 env steps"),
    ],
)
def test_rewinding_to_a_step_without_a_checkpoint_changes_nothing_and_lists_the_available_steps(
    run: Path, step: int, said: str
) -> None:
    before = state(run)
    with pytest.raises(UsageError, match=said):
        rlrun.resume(run, from_step=step)
    assert state(run) == before


@pytest.mark.parametrize("key", ["scheduler", "searcher", "output"])
def test_a_run_with_a_scheduler_searcher_or_recorded_output_cannot_be_rewound(
    run: Path, key: str, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    opened = RunDirectory.open(run)
    entry, text = opened.spec()
    monkeypatch.setattr(RunDirectory, "spec", lambda self: ({**entry, key: "asha"}, text))
    before = state(run)
    with wording.raised(UsageError, key if key != "output" else "data set"):
        rlrun.resume(run, from_step=100)
    assert state(run) == before


def test_a_run_from_which_a_later_stage_has_started_cannot_be_rewound(run: Path, wording) -> None:
    shutil.copytree(run, run.parent / "later")
    later = RunDirectory.open(run.parent / "later")
    later.write_table(replace(later.table, after="pole"))
    name = later.table.trials[0]
    later.trial_directory(name).write_record(replace(later.record(name), from_checkpoint="somewhere"))
    with wording.raised(UsageError):
        rlrun.resume(run, from_step=100)
