"""When an experiment passes: over seeds, over configurations, as a control, and against a baseline."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlrun.report.regression.verdicts import Case, JudgedValue, Judgement, Verdict, verdict_data


def case(value: float | None, *, seed: int = 0, configuration: str = "", error: str = "") -> Case:
    return Case(f"{seed:03d}", seed, configuration, Path("runs/x"), 2048, 1.5, {"m": value}, {"m": 10.0}, error)


def cases(*values: float | None, configuration: str = "") -> tuple[Case, ...]:
    return tuple(case(value, seed=seed, configuration=configuration) for seed, value in enumerate(values))


def against_the_baseline(judgement: Judgement) -> JudgedValue:
    return JudgedValue(judgement, 20.0, 12.0, -8.0, -11.0, -5.0)


@pytest.mark.parametrize(
    ("value", "outcome"), [(10.0, "reached"), (9.99, "missed"), (None, "missed"), (float("nan"), "missed")]
)
def test_a_case_reaches_its_target_at_exactly_the_required_value(value: float | None, outcome: str) -> None:
    assert case(value).outcome == outcome


def test_the_message_of_a_case_says_which_value_was_reached_and_which_was_expected(wording) -> None:
    assert case(9.5, seed=2).message == wording("9.5", "10", "2,048")
    assert case(None).message == wording("10")


def test_a_case_is_missed_unless_it_reaches_the_target_of_every_metric(wording) -> None:
    both = Case("000", 0, "", Path(), 1, 1.0, {"m": 10.0, "n": 1.0}, {"m": 10.0, "n": 2.0})
    assert both.outcome == "missed"
    assert [both.outcome_of(metric) for metric in "mn"] == ["reached", "missed"]
    assert both.message == wording("10")


@pytest.mark.parametrize(("needed", "passed"), [(1, True), (2, True), (3, False)])
def test_a_verdict_passes_if_at_least_the_required_number_of_seeds_reaches_the_target(
    needed: int, passed: bool, wording
) -> None:
    verdict = Verdict("pole", cases(11.0, 3.0, 12.0), needed)
    assert verdict.passed is passed
    assert verdict.summary == wording(needed)
    assert verdict.message == (
        "" if passed else "missed the target of the spec (2 of 3 seeds reached the target, 3 needed)"
    )


def test_a_verdict_passes_only_if_every_configuration_reaches_the_target(wording) -> None:
    good, bad = cases(11.0, 11.0, configuration="lr=1"), cases(11.0, 0.0, configuration="lr=2")
    verdict = Verdict("pole", good + bad, 2)
    assert not verdict.passed
    assert verdict.summary == wording()


def test_a_failed_trial_is_reported_even_if_enough_other_trials_reach_the_target(wording) -> None:
    verdict = Verdict("pole", (*cases(11.0, 11.0), case(None, seed=2, error="the pole broke")), 2)
    assert verdict.cases[2].outcome == "failed"
    assert verdict.cases[2].message == "the pole broke"
    assert verdict.message == wording()


def test_a_control_passes_if_it_misses_the_target(wording) -> None:
    verdict = Verdict("pole", cases(1.0, 11.0, 2.0), 2, control=True)
    assert verdict.passed
    assert verdict.summary == wording()


def test_a_gate_that_frozen_policies_pass_is_too_weak(wording) -> None:
    verdict = Verdict("pole", cases(11.0, 11.0, 2.0), 2, control=True)
    assert not verdict.passed
    assert verdict.message == wording()


def test_a_gate_is_too_weak_if_frozen_policies_of_any_single_configuration_pass_it() -> None:
    strong, weak = cases(1.0, 1.0, configuration="lr=1"), cases(11.0, 11.0, configuration="lr=2")
    assert Verdict("pole", strong + weak, 2, control=True).is_too_weak


def test_a_control_with_failed_trials_does_not_pass(wording) -> None:
    verdict = Verdict("pole", (*cases(1.0, 1.0), case(None, seed=2, error="the pole broke")), 2, control=True)
    assert verdict.message == wording()


@pytest.mark.parametrize(
    ("judgement", "passed"), [("better", True), ("same", True), ("not judged", True), ("worse", False)]
)
def test_a_verdict_fails_if_learning_is_worse_than_in_the_baseline(judgement: Judgement, passed: bool) -> None:
    verdict = Verdict("pole", cases(11.0), 1, area=against_the_baseline(judgement))
    assert verdict.passed is passed
    assert verdict.message == ("" if passed else "learns worse than the baseline (20 before, 12 now: -8 [-11, -5])")


@pytest.mark.parametrize(("holds_speed", "passed"), [(False, True), (True, False)])
def test_a_verdict_fails_for_lower_speed_only_if_speed_is_enforced(holds_speed: bool, passed: bool) -> None:
    slower = JudgedValue("worse", 4000.0, 2000.0, 0.5, 0.4, 0.6, is_ratio=True)
    verdict = Verdict("pole", cases(11.0), 1, speed=slower, holds_speed=holds_speed)
    assert verdict.passed is passed
    assert verdict.message == ("" if passed else "slower than the baseline (4,000 before, 2,000 now: x 0.5 [0.4, 0.6])")


def test_verdict_data_contains_all_parts_of_the_verdict(wording) -> None:
    data = verdict_data(Verdict("pole", cases(9.0), 1, area=against_the_baseline("same")))
    assert data["experiment"] == "pole"
    assert data["passed"] is False
    assert data["message"] == wording()
    assert data["cases"][0]["values"] == {"m": 9.0}
    assert data["cases"][0]["outcome"] == "missed"
    assert data["area"]["change"] == -8.0
    assert data["speed"] is None


@pytest.mark.parametrize(
    ("values", "floor", "warned"),
    [
        ((11.0, 12.0, 13.0), 12.5, True),
        ((11.0, 12.0, 13.0), 12.0, False),
        ((100.0, 12.0, 13.0, 14.0), 13.0, False),  # with four seeds, the outer two are left out
        ((11.0, 12.0, 13.0), None, False),
    ],
)
def test_seeds_below_the_published_interval_cause_a_warning_but_not_a_failure(
    values: tuple[float, ...], floor: float | None, warned: bool, wording
) -> None:
    verdict = Verdict("pole", cases(*values), 2, floor=floor)
    assert verdict.passed
    assert bool(verdict.warning) == warned
    assert verdict_data(verdict)["warning"] == verdict.warning
    if warned:
        assert verdict.warning == wording("12.5", "10%")


@pytest.mark.parametrize(
    ("mean", "expected", "warned"), [(495.1, 450.0, False), (494.9, 450.0, True), (499.9, 500.0, True)]
)
def test_a_floor_at_the_maximum_return_tolerates_slightly_lower_means(
    mean: float, expected: float, warned: bool
) -> None:
    case = Case("000", 0, "", Path(), 1, 1.0, {"m": mean}, {"m": expected})
    assert bool(Verdict("pole", (case,), 1, floor=500.0).warning) == warned
