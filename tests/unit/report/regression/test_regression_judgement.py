"""Better, same or worse: intervals of differences with known answers."""

from __future__ import annotations

import pytest

from rlrun.report.regression.verdicts import JudgedValue, compare_differences, compare_ratios


def test_groups_of_clearly_separated_numbers_are_judged_worse_or_better() -> None:
    low, high = {"": [10.0, 11.0, 12.0]}, {"": [20.0, 21.0, 22.0]}
    worse = compare_differences(low, high)
    assert (worse.judgement, worse.before, worse.now, worse.change) == ("worse", 21.0, 11.0, -10.0)
    assert worse.low is not None
    assert worse.high is not None
    half = 2.7764 * (2 / 3) ** 0.5  # Student's t with 4 degrees of freedom
    assert (worse.low, worse.high) == pytest.approx((-10 - half, -10 + half), abs=1e-3)
    assert compare_differences(high, low).judgement == "better"


def test_groups_of_overlapping_numbers_are_judged_the_same() -> None:
    assert compare_differences({"": [10.0, 20.0, 30.0]}, {"": [12.0, 21.0, 35.0]}).judgement == "same"


def test_equal_numbers_are_judged_the_same_even_for_a_single_seed() -> None:
    single = compare_differences({"": [5.0]}, {"": [5.0]})
    assert (single.judgement, single.change, single.low, single.high) == ("same", 0.0, 0.0, 0.0)
    several = compare_differences({"": [5.0, 9.0]}, {"": [5.0, 9.0]})
    assert (several.judgement, several.change) == ("same", 0.0)


def test_a_difference_from_a_single_seed_is_not_judged(wording) -> None:
    found = compare_differences({"": [5.0]}, {"": [9.0, 9.0, 9.0]})
    assert found.judgement == "not judged"
    assert str(found) == wording()


def test_only_configurations_that_both_sides_have_are_compared_and_each_has_the_same_weight(wording) -> None:
    now = {"a": [1.0, 1.0], "b": [5.0, 5.0, 5.0, 5.0], "new": [100.0, 100.0]}
    before = {"a": [2.0, 2.0], "b": [8.0, 8.0], "gone": [0.0]}
    found = compare_differences(now, before)
    assert (found.now, found.before, found.change, found.low, found.high) == (3.0, 5.0, -2.0, -2.0, -2.0)
    assert str(compare_differences({"new": [1.0]}, {"gone": [1.0]})) == wording()


@pytest.mark.parametrize(("factor", "judgement"), [(0.95, "same"), (0.8, "worse"), (1.3, "better")])
def test_a_ratio_within_the_tolerance_is_judged_the_same(factor: float, judgement: str) -> None:
    before = [1000.0, 1001.0, 999.0]
    found = compare_ratios({"": [factor * value for value in before]}, {"": before}, tolerance=0.1)
    assert found.judgement == judgement
    assert found.change == pytest.approx(factor)
    assert found.before == pytest.approx(1000.0, rel=1e-3)


def test_a_comparison_is_printed_with_few_digits_and_with_its_note(wording) -> None:
    assert str(JudgedValue("same", 1.23456, 2.0, 0.76544, -0.5, 2.0)) == wording("1.235", "0.7654", "-0.5")
    told = JudgedValue("worse", 33_344.4, 10_000.0, 0.3, 0.2, 0.4, is_ratio=True, note="so it is")
    assert str(told) == wording("33,344", "10,000", "0.3")
