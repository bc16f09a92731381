"""Misspelled episode metrics of a spec are reported once, as soon as a result should contain them."""

from __future__ import annotations

from typing import Any

import pytest

from rlrun.experiments.runs.unreported_metrics import UnreportedMetrics

SPEC = {
    "stop": {"env_steps": 10, "info/energy": 10, "plateau": {"metric": "info/kwh", "patience": 2}},
    "checkpoint": {"best": "evaluation/info/sucess"},
    "expect": {"evaluation/info/is_success": 0.9, "seeds": 3},
}
NO_EPISODE = {"env_steps": 1, "episode_return_mean": None, "evaluation/episode_return_mean": None}
TRAINED = {**NO_EPISODE, "episode_return_mean": 1.0, "info/energy_kwh": 2.0}
EVALUATED = {**TRAINED, "evaluation/episode_return_mean": 1.0, "evaluation/info/is_success": 0.0}


def test_a_missing_metric_is_noted_once_at_the_first_result_that_should_contain_it(wording) -> None:
    awaited = UnreportedMetrics(SPEC)
    assert awaited.found(NO_EPISODE, lambda: ()) == []
    assert awaited.found(TRAINED, lambda: ()) == wording("stop", "stop.plateau.metric", "info/energy_kwh")
    assert awaited.found(EVALUATED, lambda: ()) == wording("checkpoint.best", "evaluation/info/is_success")
    assert awaited.found(EVALUATED, lambda: ()) == []


@pytest.mark.parametrize(("row", "before"), [({"info/energy": 1.0}, {}), ({}, {"info/energy": 1.0})])
def test_a_metric_that_some_results_contain_is_not_noted_as_missing(
    row: dict[str, Any], before: dict[str, Any]
) -> None:
    awaited = UnreportedMetrics({"stop": {"info/energy": 10}})
    assert awaited.found({**TRAINED, **row}, lambda: [before]) == []
    assert awaited.found(TRAINED, lambda: ()) == []
