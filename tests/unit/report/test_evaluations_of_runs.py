"""Findings on evaluations: greedy loops, differing kinds of actions, and evaluations in another env."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rlrun.engine.rollout.evaluation import EvaluationResult
from rlrun.experiments.runs.trial_result import Columns, TrialResult
from rlrun.report.diagnosis.evaluations import evaluated_elsewhere, greedy_loops, kinds_differ
from rlrun.report.diagnosis.evidence import Evidence
from rlrun.report.diagnosis.finding import Finding

RANDOM = EvaluationResult([10.0, 30.0], [10, 30])


def trial(columns: dict[str, float]) -> TrialResult:
    made = TrialResult("000", Path("run", "000"), "e", "TERMINATED", seed=0, configuration=0)
    values = {name: np.array([value]) for name, value in columns.items()}
    made.__dict__["columns"] = Columns(values, tuple(values))
    return made


def of_kinds(greedy: float, greedy_steps: float, sampled: float, sampled_steps: float) -> list[Finding]:
    """Returns the findings for a trial that is judged by greedy actions, whose intervals do not overlap."""
    columns = {"evaluation/episode_return_mean": greedy, "evaluation/episode_len_mean": greedy_steps}
    columns |= {"evaluation/sampled/episode_return_mean": sampled, "evaluation/sampled/episode_len_mean": sampled_steps}
    told = trial({**columns, "evaluation/sampled/episode_return_gap": 1.0 if sampled > greedy else -1.0})
    return [*greedy_loops([told]), *kinds_differ([told])]


def test_greedy_actions_are_found_to_loop_if_their_episodes_are_longer_and_have_lower_returns() -> None:
    names = [one.name for one in of_kinds(-60.0, 60.0, -12.0, 12.0)]
    assert names == ["greedy loops"]
    other = ["greedy and sampled actions differ"]
    assert [one.name for one in of_kinds(-14.0, 14.0, -12.0, 12.0)] == other  # hardly longer
    assert [one.name for one in of_kinds(20.0, 20.0, 60.0, 60.0)] == other  # shorter
    assert [one.name for one in of_kinds(60.0, 60.0, 20.0, 20.0)] == other  # longer, but with higher returns


def elsewhere(evaluated: float, env: Any, end: float = 220.0) -> list[Finding]:
    """Returns the findings for a training return of 220; a random policy returns 20 there, and 10 in the other env."""
    columns = {"episode_return_mean": end, "evaluation/episode_return_mean": evaluated}
    spec = {"env": {"id": "CartPole-v1", "kwargs": {}}, "evaluation": {"env": env}}
    there = EvaluationResult([5.0, 15.0], [5, 15])
    return evaluated_elsewhere([Evidence(trial(columns), {}, RANDOM)], {"000": spec}, there)


def test_losing_over_half_of_the_gain_in_evaluations_is_a_finding_if_their_env_differs_from_training() -> None:
    other = {"id": "CartPole-v1", "kwargs": {"length": 5}}
    (finding,) = elsewhere(109.0, other)
    assert "kwargs" in finding.found
    assert elsewhere(110.0, other) == []
    assert elsewhere(109.0, None) == elsewhere(109.0, {"id": "CartPole-v1", "kwargs": {}}) == []
    assert elsewhere(10.0, other, end=25.0) == []  # the policy has learned nothing that it could lose
