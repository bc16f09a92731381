"""The table at the end of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import rlrun
from rlrun.cli.outcome import few_trials, over_seeds, print_outcome, results_table
from rlrun.experiments.runs.trial_result import TrialResult


def trial(run: str, name: str) -> TrialResult:
    return TrialResult(name, Path("runs") / run / name, run, "TERMINATED")


def first_column(trials: list[TrialResult]) -> list[str]:
    return [line.split()[0] for line in results_table(trials).splitlines()]


def test_trials_of_a_single_run_are_listed_by_name_without_the_run() -> None:
    assert first_column([trial("a", "000-seed=0"), trial("a", "001-seed=1")]) == ["trial", "000-seed=0", "001-seed=1"]


def test_trials_of_several_runs_are_listed_with_the_names_of_their_runs() -> None:
    assert first_column([trial("a", "000-seed=0"), trial("b", "000-seed=0")]) == [
        "trial",
        "a/000-seed=0",
        "b/000-seed=0",
    ]


def test_games_show_win_draw_and_loss_rates_instead_of_a_return() -> None:
    rates = {
        "evaluation/against/win_rate": 0.5,
        "evaluation/against/draw_rate": 0.3,
        "evaluation/against/loss_rate": 0.2,
    }
    played = replace(trial("a", "000-seed=0"), last_result={"env_steps": 100, "episode_return_mean": 0.0, **rates})
    heading, row = (line.split() for line in results_table([played]).splitlines())
    assert heading[4:7] == ["won", "drawn", "lost"]
    assert row[3:6] == ["0.5", "0.3", "0.2"]


def swept(runs: Path, configurations: int, seeds: int) -> list[TrialResult]:
    """Runs a tiny sweep for one iteration."""
    config = {
        "train_batch_size": 16,
        "min_env_steps_per_iteration": 0,
        "minibatch_size": 16,
        "num_epochs": 1,
        "num_envs_per_worker": 2,
    }
    rates = [0.001 * (n + 1) for n in range(configurations)]
    spec = {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "seeds": seeds,
        "stop": {"iteration": 1},
        "config": {**config, "model": {"hiddens": [4]}, "lr": {"grid_search": rates}},
        "checkpoint": {"every": None, "at_end": False},
    }
    return rlrun.run({"tiny": spec}, runs_dir=runs, executor="local")


def test_the_outcome_of_several_configurations_has_a_table_that_aggregates_over_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wording
) -> None:
    print_outcome(swept(tmp_path, 2, 2))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == wording("episode_return_mean")
    assert {line.split()[0] for line in lines[2:4]} == {"lr=0.001", "lr=0.002"}
    assert [line.split()[0] for line in lines[6:10]] == [f"00{n}-lr=0.00{1 + n // 2}-seed={n % 2}" for n in range(4)]


def test_the_outcome_of_a_single_configuration_has_no_table_that_aggregates_over_seeds(tmp_path: Path) -> None:
    assert over_seeds(swept(tmp_path, 1, 2)) == []


def test_only_the_best_and_the_failed_trials_are_listed_if_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    monkeypatch.chdir(tmp_path)
    trials = []
    for number in range(25):
        status = "ERROR" if number == 3 else "TERMINATED"
        directory = tmp_path / f"runs/many/{number:03d}"
        trials.append(TrialResult(directory.name, directory, "many", status, best_score=float(number)))
    lines = few_trials(trials)[0].splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == [f"{n:03d}" for n in (*range(24, 14, -1), 3)]
    assert lines[-1] == wording("runs/many", "14")
