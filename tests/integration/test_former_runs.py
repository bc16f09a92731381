"""Runs that earlier revisions left are evaluated and resumed as they would have been by those.

`tools/former_runs.py` recorded them. Numbers of floating point are compared to five digits: the last ones differ
between machines and versions of torch.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import rlrun
from rlrun.cli.main import cli

FORMER = Path(__file__).parents[1] / "former_runs"
RECORDS = sorted(FORMER.glob("*/*.json"))
NEEDS_RAY = {"ppo_workers"}
SEEDED_BY_NAMES = {"league/elo_main"}
"""Results of games whose seeds come from the players' names, of which one is the path of a module that has moved."""


def approximately(recorded: Any) -> Any:
    """Returns what compares equal to a recorded number, or to a list or mapping of such."""
    if isinstance(recorded, dict):
        return {name: approximately(value) for name, value in recorded.items()}
    if isinstance(recorded, list):
        return [approximately(value) for value in recorded]
    return pytest.approx(recorded, rel=1e-4, abs=1e-6, nan_ok=True) if isinstance(recorded, float) else recorded


def those_of(recorded: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Returns the results of today that were there already when the run was recorded."""
    return {name: now.get(name, "nothing") for name in recorded if name not in SEEDED_BY_NAMES}


@pytest.fixture(params=RECORDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def record(request: pytest.FixtureRequest) -> Path:
    """A run of an earlier revision: NAME.json, and next to it the directory NAME."""
    return Path(request.param)


def test_a_run_of_an_earlier_revision_is_evaluated_as_it_was(record: Path) -> None:
    then = json.loads(record.read_text())["evaluation"]
    words = ["evaluate", str(record.with_suffix("")), "--episodes", str(then["episodes"]), "--trust", "--json"]
    now = json.loads(CliRunner().invoke(cli, words, catch_exceptions=False).stdout)
    assert those_of(then, now) == approximately(then)


def test_a_run_of_an_earlier_revision_is_resumed_as_it_would_have_been(
    record: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    then = json.loads(record.read_text())["rows"]
    run = Path(shutil.copytree(record.with_suffix(""), tmp_path / record.stem))
    if record.stem in NEEDS_RAY:
        request.getfixturevalue("running_ray")
        now = rows_of_the_checkpoint(run, len(then))
    else:
        (trial,) = rlrun.resume(run, extend={"iteration": then[-1]["iteration"]})
        assert trial.status == "TERMINATED"
        now = trial.results()[-len(then) :]
    for earlier, row in zip(then, now, strict=True):
        assert those_of(earlier, row) == approximately(those_of(earlier, earlier))


def rows_of_the_checkpoint(run: Path, iterations: int) -> list[dict[str, Any]]:
    """Trains on from a run's checkpoint without the run around it, which would start a Ray of its own."""
    (checkpoint,) = run.glob("*/checkpoints/*")
    with rlrun.Training.restore(checkpoint) as training:
        return [training.step() for _ in range(iterations)]
