"""Curves on a common grid."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rlrun.experiments.trial.trial_directory import TrialDirectory, TrialRecord
from rlrun.report.configurations import groups_of
from rlrun.report.curves import Curve, curve_of, ranked, sample_points
from rlrun.report.reading import read_run

MakeRun = Callable[..., Path]
RETURN = "episode_return_mean"


def curve(path: Path, axis: str = "env_steps") -> Curve:
    found = curve_of(groups_of(read_run(path))[0], RETURN, axis)
    assert found is not None
    return found


def at(found: Curve, x: float) -> np.ndarray:
    return found.ys[:, np.argmin(abs(found.xs - x))]


def test_curves_of_seeds_share_a_grid_and_are_nan_before_their_first_value(make_sweep: MakeRun) -> None:
    found = curve(make_sweep({0.1: [[None, 2, 4], [5, None, 5]]}))
    assert (found.xs[0], found.xs[-1]) == (100, 300)
    assert at(found, 250) == pytest.approx([3, 5], abs=0.05)
    assert np.isnan(found.ys[0, 0])
    assert found.mean[0] == 5
    assert (found.low[-1], found.high[-1], found.final) == (4, 5, 4.5)


def test_a_finished_seed_keeps_its_last_value_and_the_curve_counts_as_complete_up_to_its_end(
    make_sweep: MakeRun,
) -> None:
    found = curve(make_sweep({0.1: [[1, 9], [1, 2, 3, 4]]}))
    assert at(found, 400) == pytest.approx([9, 4])
    assert found.whole_until == pytest.approx(200, abs=0.02 * 300 + 1e-9)


def test_an_unfinished_seed_is_left_out_of_the_curve_after_its_last_value(make_sweep: MakeRun) -> None:
    path = make_sweep({0.1: [[1, 9], [1, 2, 3, 4]]})
    TrialDirectory(path / "000-lr=0.1-seed=0").write_record(TrialRecord("000", "INTERRUPTED", 0, {"lr": 0.1}))
    found = curve(path)
    assert np.isnan(found.ys[0, -1])
    assert found.mean[-1] == 4


def test_curves_can_be_drawn_over_time(make_sweep: MakeRun) -> None:
    found = curve(make_sweep({0.1: [[1, 2, 3]]}), "time_total_s")
    assert (found.xs[0], found.xs[-1]) == (2.0, 6.0)


def test_a_group_without_values_has_no_curve(make_sweep: MakeRun) -> None:
    assert curve_of(groups_of(read_run(make_sweep({0.1: [[None, None], []]})))[0], RETURN, "env_steps") is None


def test_the_curve_of_a_population_follows_its_best_member_at_every_point(make_population: MakeRun) -> None:
    (group,) = groups_of(read_run(make_population()))
    _, best = sample_points(group.samples[0], RETURN, "env_steps")
    assert best.tolist() == [10, 30, 40, 60, 65, 80]
    _, worst = sample_points(group.samples[0], RETURN, "env_steps", "min")
    assert worst.tolist() == [5, 6, 14, 16, 60, 70]


def test_curves_are_ranked_by_their_final_values(make_sweep: MakeRun) -> None:
    groups = groups_of(read_run(make_sweep({0.1: [[9, 1]], 0.2: [[1, 5]], 0.3: [[1, 3]]})))
    curves = [found for group in groups if (found := curve_of(group, RETURN, "env_steps"))]
    assert [found.label for found in ranked(curves)] == ["lr=0.2", "lr=0.3", "lr=0.1"]
    assert [found.label for found in ranked(curves, "min")] == ["lr=0.1", "lr=0.3", "lr=0.2"]
