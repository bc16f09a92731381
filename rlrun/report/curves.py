"""Learning curves of several trials on one grid, so that they can be averaged, drawn and compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlrun.report.configurations import Group, Sample
from rlrun.spec.tuning import Mode

Floats = NDArray[np.float64]
Points = tuple[Floats, Floats]
"""Where something was reported and what, both [N], ascending."""

GRID_POINTS = 200

SLACK = 0.02
"""Part of the drawn range by which trials of the same length may end apart: their last batches overshoot a little."""


@dataclass(frozen=True)
class Curve:
    """A group's results over its samples.

    Attributes:
        label: What the legend calls it.
        xs: The grid, [G].
        ys: Each sample on the grid, [samples, G]; NaN before its first value. A sample that is done keeps its last
            value, one that is not has NaN from there on.
        whole_until: Up to here no sample has ended.
        final: Mean of the samples' last values.
    """

    label: str
    xs: Floats
    ys: Floats
    whole_until: float
    final: float

    @property
    def mean(self) -> Floats:
        """Mean over the samples that have a value, [G]."""
        return self._over_samples(np.nanmean)

    @property
    def low(self) -> Floats:
        """Lowest sample, [G]."""
        return self._over_samples(np.nanmin)

    @property
    def high(self) -> Floats:
        """Highest sample, [G]."""
        return self._over_samples(np.nanmax)

    def _over_samples(self, measure: Callable[..., Floats]) -> Floats:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(Mean of empty|All-NaN)", RuntimeWarning)  # before any has a value
            return measure(self.ys, axis=0)


def sample_points(sample: Sample, metric: str, axis: str, mode: Mode = "max") -> Points:
    """Returns a sample's course: that of its trial, or at every point that of its best member.

    Args:
        sample: A trial, or the members of a population.
        metric: What.
        axis: Over which column.
        mode: Which member is the best.
    """
    courses = [points for trial in sample if len((points := trial.points(metric, axis))[0])]
    if len(courses) < 2:
        return courses[0] if courses else (np.empty(0), np.empty(0))
    xs = np.unique(np.concatenate([points[0] for points in courses]))
    best = np.fmax if mode == "max" else np.fmin
    return xs, best.reduce([np.interp(xs, *points, left=np.nan) for points in courses])


def curve_of(
    group: Group, metric: str, axis: str, *, mode: Mode = "max", grid_points: int = GRID_POINTS
) -> Curve | None:
    """Puts the samples of a group on a grid of their own, None if none has a value.

    Args:
        group: The group.
        metric: What.
        axis: Over which column.
        mode: Which member of a population counts.
        grid_points: Points of the grid.
    """
    found = [
        (sample, points) for sample in group.samples if len((points := sample_points(sample, metric, axis, mode))[0])
    ]
    if not found:
        return None
    xs = np.linspace(min(p[0][0] for _, p in found), max(p[0][-1] for _, p in found), grid_points)
    ys = np.stack([np.interp(xs, *points, left=np.nan, right=_after(sample, points)) for sample, points in found])
    first_end = min(points[0][-1] for _, points in found)
    final = float(np.mean([points[1][-1] for _, points in found]))
    return Curve(group.label, xs, ys, float(first_end + SLACK * (xs[-1] - xs[0])), final)


def ranked(curves: Sequence[Curve], mode: Mode = "max") -> list[Curve]:
    """Returns curves by where they end, the best first."""
    return sorted(curves, key=lambda curve: curve.final, reverse=mode == "max")


def _after(sample: Sample, points: Points) -> float:
    """Returns what stands behind a sample's last value: that value, if it is done."""
    return float(points[1][-1]) if all(trial.status == "TERMINATED" for trial in sample) else np.nan
