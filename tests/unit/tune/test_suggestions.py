"""Which configurations count as running while a searcher is asked for more."""

from __future__ import annotations

from pathlib import Path

from rlrun.spec.load import parse_experiments
from rlrun.tune.run_directory import RunDirectory
from rlrun.tune.suggestions import Suggestions


def suggestions(runs: Path) -> Suggestions:
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
    return Suggestions(experiment, RunDirectory.create(runs, "swept", experiment, [], "ray"))


def test_a_configuration_runs_until_every_trial_of_it_waits_or_has_ended(tmp_path: Path) -> None:
    sweep = suggestions(tmp_path)
    first, second = sweep.next_trials()
    assert sweep.running() == 1
    sweep.waits(first.name)
    assert sweep.running() == 1
    sweep.waits(second.name)
    assert sweep.running() == 0
    sweep.goes_on(first.name)
    assert sweep.running() == 1
    sweep.next_trials()
    assert sweep.running() == 2
