"""What a searcher hears of trials, and the trials that are made of its suggestions."""

from __future__ import annotations

import json
from pathlib import Path

from rlrun.experiments.runs.run_directory import RunDirectory
from rlrun.experiments.search.searchers.journal import JOURNAL_FILE
from rlrun.experiments.search.suggestions import Suggestions
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.results import RESULT_FILE
from rlrun.experiments.trial.trial_directory import TrialDirectory


def suggestions(runs: Path, start: Path | None = None) -> Suggestions:
    entry = {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "searcher": "bohb",
        "scheduler": "bohb",
        "num_samples": 4,
        "seeds": 2,
        "stop": {"env_steps": 9000},
        "config": {"lr": {"loguniform": [1e-4, 1e-2]}},
    }
    (experiment,) = parse_experiments({"swept": entry})
    return Suggestions(experiment, RunDirectory.create(runs, "swept", experiment, [], "ray", start))


def test_a_configuration_runs_until_every_trial_of_it_waits_or_has_ended(tmp_path: Path) -> None:
    sweep = suggestions(tmp_path)
    first, second = sweep.next_trials()
    assert (first.params, first.seed, second.seed) == (second.params, 0, 1)
    assert sweep.running() == 1
    sweep.waits(first.name)
    assert sweep.running() == 1
    sweep.waits(second.name)
    assert sweep.running() == 0
    sweep.goes_on(first.name)
    assert sweep.running() == 1
    sweep.next_trials()
    assert sweep.running() == 2


def write_rows(run: Path, trial: str, *returns: float | None) -> None:
    rows = [{"iteration": place, "episode_return_mean": value} for place, value in enumerate(returns, start=1)]
    (run / trial / RESULT_FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_score_is_the_mean_of_the_last_values_also_of_a_trial_that_came_through_at_last(tmp_path: Path) -> None:
    sweep = suggestions(tmp_path)
    first, second = sweep.next_trials()
    write_rows(tmp_path / "swept", first.name, 10.0, 20.0, None)
    write_rows(tmp_path / "swept", second.name, 40.0)
    sweep.ended(first.name, failed=False)
    sweep.ended(second.name, failed=True)
    sweep.ended(second.name, failed=False)
    ends = [json.loads(line) for line in (tmp_path / "swept" / JOURNAL_FILE).read_text().splitlines()]
    assert [line["score"] for line in ends if "complete" in line] == [None, 30.0]


def test_trials_that_a_searcher_makes_start_where_the_others_start(tmp_path: Path) -> None:
    sweep = suggestions(tmp_path, tmp_path / "checkpoint")
    first, _ = sweep.next_trials()
    record = TrialDirectory(tmp_path / "swept" / first.name).read_record()
    assert record is not None
    assert record.from_checkpoint == str(tmp_path / "checkpoint")
