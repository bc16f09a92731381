"""A trial stops at a plateau of a metric, and continues its count exactly after a resume."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.training.assemble.description import Description
from rlrun.engine.training.assemble.policies import Policies
from rlrun.experiments.spec.experiment import TrialSpec
from rlrun.experiments.spec.load import parse_experiments
from rlrun.experiments.trial.results import read_results
from rlrun.experiments.trial.stop_criteria import Plateau, StopCriteria
from rlrun.experiments.trial.trial_directory import TrialDirectory
from rlrun.experiments.trial.trial_loop import TrialLoop

MakeTrial = Callable[..., TrialSpec]
RETURN, SCORE = "episode_return_mean", "evaluation/episode_return_mean"


def stops_after(plateau: Plateau, metric: str, values: Sequence[float | None], **more: Any) -> int | None:
    """Number of values after which the plateau is reached."""
    for number, value in enumerate(values, 1):
        plateau.note({metric: value, **more})
        if plateau.reason:
            return number
    return None


@pytest.mark.parametrize(
    ("settings", "values", "after"),
    [
        ({"patience": 2}, [1.0, 2.0, 2.0, 1.5, 9.0], 4),
        ({"patience": 2}, [1.0, 0.5, 1.1, 0.5, 1.2, 0.5], None),
        ({"patience": 2, "min_delta": 0.5}, [1.0, 1.4, 1.5, 9.0], 3),  # 1.5 is not more than 0.5 above
        ({"patience": 1}, [None, None, -3.0, None, -3.0], 5),
        ({"patience": 3}, [0.0, -1.0, -2.0, -0.5], 4),
    ],
)
def test_a_plateau_is_reached_after_patience_values_without_improvement(
    small_trial: MakeTrial, settings: dict[str, Any], values: list[float | None], after: int | None
) -> None:
    trial = small_trial(stop={"plateau": {"metric": RETURN, **settings}})
    assert stops_after(Plateau(trial), RETURN, values) == after


def test_a_plateau_criterion_on_a_loss_expects_it_to_fall_and_ignores_values_that_are_not_finite(
    small_trial: MakeTrial, wording
) -> None:
    falling = [math.nan, 5.0, 4.0, 3.0, math.inf, 2.0, 2.0, 2.5, 1.0]
    stop = {"plateau": {"metric": "learner/value_loss", "patience": 2}}
    plateau = Plateau(small_trial(stop=stop))
    assert stops_after(plateau, "learner/value_loss", falling) == 8
    assert plateau.reason == wording("learner/value_loss")
    as_told = Plateau(small_trial(stop={"plateau": {**stop["plateau"], "mode": "max"}}))
    assert stops_after(as_told, "learner/value_loss", falling) == 4  # the largest value, 5, came first
    near = Plateau(small_trial(stop={"plateau": {**stop["plateau"], "min_delta": 1.0}}))
    assert stops_after(near, "learner/value_loss", [5.0, 4.0, 4.1]) == 3  # 4 is not more than 1 below 5


def test_metrics_declare_lower_is_better_for_errors_and_higher_is_better_for_returns() -> None:
    modes = {
        metric.name: metric.mode
        for algorithm in ("ppo", "dqn", "dreamer", "alphazero", "cql")
        for metric in Description(EnvConfig(id="CartPole-v1"), Policies.alone(algorithm_class(algorithm)())).metrics()
    }
    errors = {name for name in modes if name.endswith(("value_loss", "_error")) or name == "learner/loss"}
    assert errors >= {"learner/value_loss", "learner/td_error", "learner/world_model/reward_error"}
    assert {modes[name] for name in errors} == {"min"}
    assert {mode for name, mode in modes.items() if "episode_return_" in name or name.endswith("variance")} == {"max"}
    assert {modes[name] for name in ("learner/entropy", "learner/q_mean", "time_total_s", "info/<name>")} == {None}


def test_patience_counts_evaluations_if_the_trial_has_any(small_trial: MakeTrial, wording) -> None:
    stop = {"plateau": {"metric": RETURN, "patience": 2}}
    plateau = Plateau(small_trial(stop=stop, evaluation={"every": 2, "episodes": 1}))
    assert stops_after(plateau, RETURN, [5.0] * 9, **{SCORE: None}) is None
    assert stops_after(plateau, RETURN, [5.0] * 9, **{SCORE: 1.0}) == 3
    assert plateau.reason == wording("episode_return_mean")


def test_a_trial_without_a_plateau_criterion_does_not_stop_at_a_plateau(small_trial: MakeTrial) -> None:
    assert stops_after(Plateau(small_trial()), RETURN, [0.0] * 100) is None


def test_a_resumed_trial_stops_at_the_same_plateau_as_an_uninterrupted_one(
    tmp_path: Path, small_trial: MakeTrial
) -> None:
    stop = {"plateau": {"metric": RETURN, "patience": 4, "min_delta": 1e6}, "iteration": 50}
    trial = small_trial(stop=stop)
    with TrialLoop(trial, tmp_path / "whole") as loop:
        while not loop.done:
            loop.step()
    rows = read_results(tmp_path / "whole")
    first = next(number for number, row in enumerate(rows) if row[RETURN] is not None)
    assert len(rows) == first + 1 + 4  # up to the first return, then four that are not a million above it
    loop = TrialLoop(trial, tmp_path / "t")
    for _ in range(3):  # the newest checkpoint is from iteration 2
        loop.step()
    loop.close()
    with TrialLoop(trial, tmp_path / "t", resume=True) as loop:
        while not loop.done:
            loop.step()
    records = [TrialDirectory(tmp_path / name).read_record() for name in ("whole", "t")]
    assert records[0] is not None
    assert records[1] is not None
    assert records[0].stop_reason == records[1].stop_reason
    assert records[1].stop_reason.startswith("plateau: episode_return_mean has")
    assert records[0].iteration == records[1].iteration == len(rows)


ENTRY = {"algorithm": "ppo", "env": "CartPole-v1"}


def test_a_plateau_criterion_is_part_of_the_resolved_spec_and_of_each_trial() -> None:
    stop = {"env_steps": 1000.0, "plateau": {"metric": RETURN, "mode": None, "patience": 4, "min_delta": 0.0}}
    (experiment,) = parse_experiments({"a": {**ENTRY, "stop": stop, "seeds": 2}})
    assert experiment.to_data()["stop"] == stop
    assert [TrialSpec.from_data(trial.to_data()).stop for trial in experiment.trials()] == [experiment.stop] * 2
    (plain,) = parse_experiments({"a": {**ENTRY, "stop": {"env_steps": 1000}}})
    assert plain.to_data()["stop"] == {"env_steps": 1000.0}


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        ({"plateau": {"metric": "episode_reward_mean"}}, "stop.plateau.metric: .* did you mean 'episode_return_mean'"),
        ({"plateau": {"metric": SCORE}}, "stop.plateau.metric: .*is reported only with an evaluation"),
        ({"plateau": {"metric": "plateau"}}, r"a\.stop\.plateau\.metric: unknown metric 'plateau'; must be one"),
        ({"plateau": {}}, "stop.plateau.metric: is missing"),
        ({"plateau": {"metric": RETURN, "patients": 3}}, "stop.plateau.patients: .*did you mean 'patience'"),
        ({"plateau": {"metric": RETURN, "mode": "maximum"}}, "stop.plateau.mode: .*max.*min"),
        (
            {"plateau": {"metric": "learner/entropy"}},
            "stop.plateau: neither higher nor lower values of .* add mode: max or min",
        ),
        ({"platau": 3}, r"metric 'platau'; did you mean 'plateau'\?"),
        ({"plateau": None}, "stop: needs at least one metric"),
    ],
)
def test_the_error_for_an_invalid_plateau_criterion_explains_what_is_wrong(stop: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        parse_experiments({"a": {**ENTRY, "stop": stop}})


def test_a_bound_takes_precedence_over_a_hook_and_defines_when_a_trial_is_halfway(
    small_trial: Callable[..., TrialSpec], wording
) -> None:
    criteria = StopCriteria(small_trial(stop={"iteration": 4}))
    reached, before = {"iteration": 4}, {"iteration": 1}
    assert criteria.reason(reached, by_hook="solved") == wording()
    assert criteria.reason(before, by_hook="solved") == "solved"
    assert criteria.reason(before, by_hook="") is None
    assert [criteria.is_halfway({"iteration": iteration}) for iteration in (1, 2)] == [False, True]
