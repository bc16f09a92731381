"""A spec's expectations, checked in the results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlrun.report.configurations import groups_of
from rlrun.report.expectation import expectation_of, expectation_text, reached_by
from rlrun.report.reading import read_run

MakeRun = Callable[..., Path]


@pytest.mark.parametrize(
    ("expect", "reached", "when", "passed"),
    [
        ({"episode_return_mean": 5}, 2, [200, 300], True),
        ({"episode_return_mean": 5, "within_env_steps": 200}, 1, [200], False),
        ({"episode_return_mean": 5, "within_seconds": 4.0, "passes": 1}, 1, [200], True),
        ({"episode_return_mean": 5, "env_steps": 300}, 1, [300], False),
        ({"episode_return_mean": 50}, 0, [], False),
    ],
)
def test_seeds_that_reached_the_target_in_time_are_counted(
    make_sweep: MakeRun, expect: dict[str, Any], reached: int, when: list[float], passed: bool
) -> None:
    run = read_run(make_sweep({0.1: [[1, 9, 2], [1, 2, 5], [None, 1, 2]]}, spec={"expect": expect}))
    (found,) = reached_by(run, groups_of(run))
    assert (found.reached, found.seeds, found.when, found.passed) == (reached, 3, when, passed)


@pytest.mark.parametrize(
    ("expect", "status", "under_way", "budget", "missed"),
    [
        ({"within_env_steps": 3000}, "INTERRUPTED", [300], 3000, False),
        ({"within_env_steps": 3000}, "TERMINATED", [300], 3000, False),  # the run's own stop came first
        ({"within_env_steps": 300}, "INTERRUPTED", [], 300, True),
        ({"within_env_steps": 3000, "within_seconds": 6}, "INTERRUPTED", [], 3000, True),
        ({}, "KILLED", [300], 1000, False),
        ({}, "TERMINATED", [], 1000, True),
    ],
)
def test_a_run_stopped_before_its_budget_was_used_up_has_not_missed_its_target(
    make_sweep: MakeRun, expect: dict[str, Any], status: Any, under_way: list[int], budget: int, missed: bool
) -> None:
    run = read_run(make_sweep({0.1: [[1, 2, 3]]}, spec={"expect": {"episode_return_mean": 5, **expect}}))
    run = replace(run, trials=tuple(replace(trial, status=status) for trial in run.trials))
    (found,) = reached_by(run, groups_of(run))
    assert (found.passed, found.missed, found.under_way, found.budget) == (False, missed, under_way, budget)


def test_the_budget_of_a_target_is_counted_in_sgd_steps_if_the_run_learns_from_data(make_sweep: MakeRun) -> None:
    entry = {"stop": {"sgd_steps": 900}, "expect": {"episode_return_mean": 5, "within_sgd_steps": 250}}
    place = make_sweep({0.1: [[1, 9, 9], [1, 1, 9]]}, spec=entry)
    for file in place.rglob("result.json"):
        file.write_text(file.read_text().replace('"env_steps": ', '"env_steps": 0, "sgd_steps": '))
    run = read_run(place)
    (found,) = reached_by(run, groups_of(run))
    assert (found.when, found.budget, found.counter) == ([200], 250, "sgd_steps")


def test_a_run_has_missed_its_target_once_too_many_seeds_missed_it(make_sweep: MakeRun) -> None:
    run = read_run(make_sweep({0.1: [[1], [1], [1]]}, spec={"expect": {"episode_return_mean": 5}}))
    first, *others = run.trials
    run = replace(run, trials=(replace(first, status="INTERRUPTED"), *others))
    (found,) = reached_by(run, groups_of(run))
    assert (found.needed, found.under_way, found.missed) == (2, [100], True)


def test_a_run_without_a_valid_expect_section_gets_no_verdict_on_a_target(make_sweep: MakeRun) -> None:
    run = read_run(make_sweep({0.1: [[1]]}, spec={"expect": None}))
    assert reached_by(run, groups_of(run)) == []
    assert expectation_of({"expect": {"nonsense": []}}) is None


def test_a_target_and_its_budget_are_described_in_words(wording) -> None:
    expect = expectation_of({"expect": {"a": 4.5, "within_env_steps": 150_000, "within_seconds": 60.0}})
    assert expect is not None
    assert expectation_text(expect) == wording("4.5", "150,000", "60")
    expect = expectation_of({"expect": {"a": 4.5, "within_sgd_steps": 5_000}})
    assert expect is not None
    assert expectation_text(expect) == wording("4.5", "5,000")
