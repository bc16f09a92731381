"""Compares rlrun's statistics with the results of the package rliable, whose definitions they follow.

rliable requires versions of arch and pandas that conflict with the requirements of Ray and rlrun, so the tests cannot
depend on it; they compare with numbers that this script has recorded. It needs only NumPy and rliable::

    python -m venv /tmp/rliable && /tmp/rliable/bin/pip install rliable 'pandas<3'
    PYTHONPATH=. /tmp/rliable/bin/python -m scripts.check_statistics [--write tests/unit/report/rliable.json]

With ``--coverage``, which does not need rliable, it measures how often the 95% interval of `mean_difference` contains
the true difference, in 5,000 simulated comparisons.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.report.statistics import (
    Estimate,
    bootstrapped,
    iqm,
    mean,
    mean_difference,
    median,
    probability_of_improvement,
)

SHAPES = ((3, 1), (5, 1), (10, 1), (50, 1), (7, 3), (10, 4))
"""Numbers of runs and tasks in the cases."""

SIMULATIONS = 5_000
RESAMPLES = 50_000
TOLERANCE = 0.06
"""Largest deviation of an interval's ends from rliable's, relative to its width; both intervals are bootstrapped."""


def cases() -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Returns pairs of score arrays, each [runs, tasks]."""
    draws = np.random.Generator(np.random.Philox(7))
    found: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    for runs, tasks in SHAPES:
        scale = 1.0 + np.arange(tasks)
        ours = np.asarray(np.round(draws.normal(0.5, 1.0, size=(runs, tasks)) * scale, 3), np.float64)
        theirs = np.asarray(np.round(draws.normal(0.0, 1.0, size=(max(2, runs - 1), tasks)) * scale, 3), np.float64)
        theirs[0] = ours[0]  # a tie
        found.append((ours, theirs))
    return found


def by_rliable(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> dict[str, tuple[float, float, float]]:
    """Returns each measure and its interval according to rliable."""
    library, metrics = (importlib.import_module(f"rliable.{name}") for name in ("library", "metrics"))
    names = ["iqm", "mean", "median"]

    def measures(scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([getattr(metrics, f"aggregate_{name}")(scores) for name in names])

    np.random.seed(0)  # rliable uses NumPy's global generator
    points, intervals = library.get_interval_estimates({"x": ours}, measures, reps=RESAMPLES)
    found = {name: (points["x"][n], *intervals["x"][:, n]) for n, name in enumerate(names)}
    points, intervals = library.get_interval_estimates(
        {"x": (ours, theirs)}, metrics.probability_of_improvement, reps=RESAMPLES // 10
    )
    found["probability"] = (points["x"], *np.ravel(intervals["x"]))
    return {name: (float(values[0]), float(values[1]), float(values[2])) for name, values in found.items()}


def by_rlrun(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> dict[str, Estimate]:
    """Returns rlrun's estimates, without the median of a single task, for which rliable computes the mean."""
    strata, others = list(ours.T), list(theirs.T)
    measures = {"iqm": iqm, "mean": mean} | ({"median": median} if len(strata) > 1 else {})
    return {name: bootstrapped(measure, strata) for name, measure in measures.items()} | {
        "probability": probability_of_improvement(strata, others)
    }


def agrees(found: Estimate, value: float, low: float, high: float) -> bool:
    """Whether the values are equal and the intervals nearly equal."""
    slack = TOLERANCE * (high - low) + 1e-9
    return abs(found.value - value) < 1e-9 and abs(found.low - low) <= slack and abs(found.high - high) <= slack


def sources(draws: np.random.Generator) -> dict[str, Callable[[int], NDArray[np.float64]]]:
    """Returns functions that draw the scores of seeds, by description."""
    return {
        "normal": lambda seeds: draws.normal(size=seeds),
        "three times as wide": lambda seeds: 3 * draws.normal(size=seeds),
        "skewed": lambda seeds: draws.lognormal(0.0, 0.5, seeds),
        "with a ceiling": lambda seeds: np.minimum(500.0, 480 + 40 * draws.normal(size=seeds)),
        "one in five fails": lambda seeds: 400.0 * (draws.uniform(size=seeds) < 0.8) + 20 * draws.normal(size=seeds),
    }


def coverage() -> None:
    """Prints how often the interval of a difference contains the true difference."""
    draws = np.random.Generator(np.random.Philox(7))
    for name, draw in sources(draws).items():
        against = sources(draws)["normal" if name == "three times as wide" else name]
        true = float(draw(2_000_000).mean() - against(2_000_000).mean())
        for ours, theirs in ((2, 2), (3, 3), (5, 5), (10, 10), (3, 10)):
            found = [mean_difference([draw(ours)], [against(theirs)]) for _ in range(SIMULATIONS)]
            covered = np.mean([estimate.low <= true <= estimate.high for estimate in found])
            print(f"{name:<20} {ours:>2} against {theirs:>2} seeds: {covered:.1%}")


def main() -> int:
    """Compares and prints; with `--write`, also records rliable's numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="write rliable's numbers to this file")
    parser.add_argument(
        "--coverage", action="store_true", help="measure how often intervals contain the true difference"
    )
    arguments = parser.parse_args()
    if arguments.coverage:
        coverage()
        return 0
    logging.disable(logging.CRITICAL)
    recorded: list[dict[str, Any]] = []
    agreed = True
    for ours, theirs in cases():
        expected = by_rliable(ours, theirs)
        recorded.append({"ours": ours.tolist(), "theirs": theirs.tolist(), **expected})
        for name, found in by_rlrun(ours, theirs).items():
            is_same = agrees(found, *expected[name])
            agreed &= is_same
            value, low, high = expected[name]
            print(
                f"{'x'.join(map(str, ours.shape)):>5} {name:<11} rliable {value:8.4f} ({low:8.4f} to {high:8.4f})  "
                f"rlrun {found.value:8.4f} ({found.low:8.4f} to {found.high:8.4f})  {'same' if is_same else 'DIFFERS'}"
            )
    if arguments.write is not None:
        content = {"rliable": version("rliable"), "tolerance": TOLERANCE, "cases": recorded}
        arguments.write.write_text(json.dumps(content) + "\n")
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
