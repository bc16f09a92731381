"""Learning curves of several trials on a common grid, for means, drawings and comparisons."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.settings.metric import Mode
from rlrun.report.configurations import Group, Sample

Floats = NDArray[np.float64]
Points = tuple[Floats, Floats]
"""Type of a curve's points: ascending positions on the axis and values, both [N]."""

GRID_POINTS = 200

SLACK = 0.02
"""Fraction of the drawn range by which the lengths of equally long trials may differ, since last batches overshoot."""


@dataclass(frozen=True)
class Curve:
    """Learning curve of a group of samples (trials or whole populations).

    Attributes:
        label: Name of the curve in the legend.
        xs: Positions of the G grid points, [G].
        ys: Values of each sample on the grid, [samples, G]; NaN before a sample's first value. A finished sample keeps
            its last value; an unfinished one has NaN after it.
        whole_until: Position up to which no sample has ended.
        final: Mean of the samples' last values.
    """

    label: str
    xs: Floats
    ys: Floats
    whole_until: float
    final: float

    @property
    def mean(self) -> Floats:
        """Mean at each grid point over the samples that have a value, [G]."""
        return self._over_samples(np.nanmean)

    @property
    def low(self) -> Floats:
        """Minimum over the samples at each grid point, [G]."""
        return self._over_samples(np.nanmin)

    @property
    def high(self) -> Floats:
        """Maximum over the samples at each grid point, [G]."""
        return self._over_samples(np.nanmax)

    def _over_samples(self, measure: Callable[..., Floats]) -> Floats:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(Mean of empty|All-NaN)", RuntimeWarning)  # until a sample has a value
            return measure(self.ys, axis=0)


def sample_points(sample: Sample, metric: str, axis: str, mode: Mode = "max") -> Points:
    """Learning curve of a sample: of a trial, or of the best member of a population at each point.

    Args:
        sample: A trial, or the members of a population.
        metric: The column of the values.
        axis: The column of the horizontal axis.
        mode: Whether higher or lower values are better, which decides which member is the best.
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
    """Learning curve of a group on a regular grid; None if no sample has a value.

    Args:
        group: The group.
        metric: The column of the values.
        axis: The column of the horizontal axis.
        mode: Whether higher or lower values are better, which decides which member of a population is the best.
        grid_points: Number of points of the grid.
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
    """Sorts curves by their final values, the best first."""
    return sorted(curves, key=lambda curve: curve.final, reverse=mode == "max")


def _after(sample: Sample, points: Points) -> float:
    """Value of a curve after a sample's last value: that value if the sample is finished, else NaN."""
    return float(points[1][-1]) if all(trial.status == "TERMINATED" for trial in sample) else np.nan
