"""Results of a trial's evaluations: games against an opponent, by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gymnasium.envs.classic_control import CartPoleEnv as CartPole

import rlrun
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.trust import spec_risks
from rlrun.experiments.spec.experiment import AGAINST_METRICS
from rlrun.experiments.spec.load import load_experiments, parse_experiments
from rlrun.experiments.trial.trial_evaluation import evaluated
from rlrun.experiments.trial.trial_training import training_of

PERFECT = "rlrun.toys:Minimax"
SMALL = {"train_batch_size": 32, "minibatch_size": 32, "num_epochs": 1, "model": {"hiddens": [4]}, "compile": False}
ALONE: dict[str, Any] = {
    "env": {"world": "rlrun.toys:TicTacToe"},
    "algorithm": "ppo",
    "config": {**SMALL, "min_env_steps_per_iteration": 0},
    "stop": {"env_steps": 64},
    "evaluation": {"every": 2, "episodes": 6, "against": PERFECT},
}
ONE_SIDE = {
    **{key: value for key, value in ALONE.items() if key not in ("algorithm", "config")},
    "policies": {"main": {"algorithm": "ppo", "config": SMALL}, "still": {"algorithm": "ppo", "config": SMALL}},
    "train": ["main"],
    "mapping": {"o": "main", "*": "still"},
}
NAMES = {metric.name for metric in AGAINST_METRICS}


def results(entry: dict[str, Any], *, is_last: bool) -> dict[str, Any]:
    """Returns the results of evaluations after one iteration."""
    (experiment,) = parse_experiments({"try": entry})
    trial = experiment.first_trial()
    with training_of(trial) as training:
        training.step()
        found = evaluated(training, trial, is_last=is_last)
    return {name: value for name, value in found.items() if "against" in name}


def test_wins_draws_and_losses_are_reported_per_side_and_overall() -> None:
    found = results(ALONE, is_last=True)
    assert found.keys() == NAMES
    for side in ("", "first/", "second/"):
        win, draw, loss, unbeaten = (
            found[f"evaluation/against/{side}{rate}_rate"] for rate in ("win", "draw", "loss", "unbeaten")
        )
        assert win == 0.0  # nobody beats a perfect player
        assert draw + loss == pytest.approx(1.0)
        assert unbeaten == draw
    halves = [found[f"evaluation/against/{side}/loss_rate"] for side in ("first", "second")]
    assert found["evaluation/against/loss_rate"] == pytest.approx(sum(halves) / 2)


def test_in_an_iteration_without_an_evaluation_all_evaluation_metrics_are_null() -> None:
    assert results(ALONE, is_last=False) == dict.fromkeys(NAMES)


def test_no_values_are_reported_for_a_side_that_no_learning_policy_plays() -> None:
    found = results(ONE_SIDE, is_last=True)
    told = {name for name, value in found.items() if value is not None}
    assert told == {name for name in NAMES if "/first/" not in name}
    assert found["evaluation/against/loss_rate"] == found["evaluation/against/second/loss_rate"]


class AlwaysSucceeds(CartPole):
    """Reports a success at the end of every episode."""

    def step(self, action: Any) -> Any:
        *step, _ = super().step(action)
        return *step, {"is_success": step[2]}


def test_the_success_rate_in_evaluations_can_be_used_under_stop_best_and_expect(tmp_path: Path) -> None:
    rate = "evaluation/info/is_success"
    entry = {
        "env": f"{__name__}:AlwaysSucceeds",
        "algorithm": "ppo",
        "config": {**SMALL, "min_env_steps_per_iteration": 0},
        "stop": {"env_steps": 320, rate: 0.9},
        "evaluation": {"every": 2, "episodes": 2},
        "checkpoint": {"best": rate},
        "expect": {rate: 0.9, "last_evaluations": 1},
    }
    (trial,) = rlrun.run({"try": entry}, runs_dir=tmp_path, executor="local")
    assert (trial.last_result["iteration"], trial.last_result[rate]) == (2, 1.0)
    assert (trial.judged_by, trial.best_score) == (rate, 1.0)


def test_metrics_of_games_against_an_opponent_can_be_used_under_stop_best_and_expect(tmp_path: Path) -> None:
    loss, unbeaten = "evaluation/against/loss_rate", "evaluation/against/second/unbeaten_rate"
    named = {
        "stop": {"env_steps": 640, loss: 0.0},  # any rate stops the trial
        "checkpoint": {"best": unbeaten},
        "expect": {unbeaten: 0.0, "last_evaluations": 1},
    }
    (trial,) = rlrun.run({"try": {**ALONE, **named}}, runs_dir=tmp_path, executor="local")
    assert trial.last_result["iteration"] == 2
    assert str(trial.stop_reason).startswith(f"{loss} ")
    assert (trial.judged_by, trial.best_score) == (unbeaten, trial.last_result[unbeaten])


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"evaluation": {"against": "rlrun.toys:Nobody"}}, "evaluation.against: .*has no 'Nobody'"),
        ({"env": "CartPole-v1"}, "evaluation.against: works only in multi-agent worlds"),
        (
            {"evaluation": {"every": 5}, "stop": {"evaluation/against/win_rate": 0.9}},
            "'evaluation/against/win_rate' is reported only with an opponent: add against",
        ),
    ],
)
def test_an_invalid_evaluation_opponent_is_reported_with_its_location(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        parse_experiments({"try": {**ALONE, **changed}})


def test_a_custom_opponent_in_evaluations_is_listed_as_code_that_needs_permission(wording) -> None:
    (experiment,) = parse_experiments({"try": ALONE})
    data = experiment.first_trial().to_data()
    assert not [demand for demand in spec_risks(data) if "against" in demand]  # the opponent ships with rlrun
    data["evaluation"]["against"] = "my_lab.players:Greedy"
    assert wording("evaluation.against", "my_lab.players:Greedy") in spec_risks(data)


@pytest.mark.parametrize("name", ["tic_tac_toe_ppo", "tic_tac_toe_league_ppo"])
def test_specs_of_tic_tac_toe_expect_85_percent_wins_and_at_most_5_percent_losses_as_x(name: str) -> None:
    (experiment,) = load_experiments([Path("configs/worlds") / f"{name}.yaml"])
    assert experiment.expect is not None
    least = {"evaluation/against/first/win_rate": 0.85, "evaluation/against/first/unbeaten_rate": 0.95}
    assert experiment.expect.metrics == least


ICE: dict[str, Any] = {
    "env": "FrozenLake-v1",
    "algorithm": "q_learning",
    "config": {"min_env_steps_per_iteration": 10},
    "stop": {"env_steps": 64},
    "evaluation": {"every": 2, "episodes": 2, "oracle": True},
}


@pytest.mark.parametrize("is_last", [True, False])
def test_gaps_to_the_exact_values_of_an_env_are_reported_if_requested(is_last: bool) -> None:
    (experiment,) = parse_experiments({"try": ICE})
    trial = experiment.first_trial()
    with training_of(trial) as training:
        training.step()
        found = evaluated(training, trial, is_last=is_last)
    gaps = {name: value for name, value in found.items() if "oracle" in name}
    assert gaps.keys() == {"evaluation/oracle/value_gap", "evaluation/oracle/policy_gap"}
    assert all((value is not None and value > 0) == is_last for value in gaps.values())


def test_requesting_exact_values_of_an_env_without_them_is_rejected_in_the_spec(wording) -> None:
    with pytest.raises(SpecError, match="need Discrete observation and action spaces"):
        parse_experiments({"try": {**ICE, "env": "CartPole-v1"}})
    with wording.raised(SpecError):
        parse_experiments({"try": {**ICE, "evaluation": {}, "stop": {"evaluation/oracle/policy_gap": 1.0}}})
