"""Search spaces as numeric dimensions for searchers: each value is represented by a number (coordinate)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from rlrun.engine.messages.explain import Location
from rlrun.experiments.spec.search_space import SearchSpace, multiple, multiples
from rlrun.experiments.spec.trial_names import short_names

TAIL = 1e-9
"""Probability of a normal distribution beyond either end of a model's suggestions: 6 standard deviations from the
mean."""


@dataclass(frozen=True)
class Dimension:
    """One search space as a numeric dimension: an interval of coordinates that map to values.

    A value's coordinate is its index among the options, the value divided by `step` in a quantized or integer space,
    its cumulative probability in a normal distribution, and otherwise the value itself. A draw from the search space
    has the same distribution as the value of a coordinate that is drawn uniformly from the interval (on a logarithmic
    scale if `log`) and rounded if `whole`.

    Attributes:
        name: Shortest unique name of the search space, as in the table of trials.
        location: Location of the search space in the experiment.
        space: The search space.
        low: Lower end of the interval.
        high: Upper end of the interval.
        first: Lowest rounded coordinate.
        last: Highest rounded coordinate.
        whole: Whether coordinates are rounded.
        log: Whether the coordinate is uniform on a logarithmic scale.
        step: Factor by which a rounded coordinate is multiplied to get the value.
    """

    name: str
    location: Location
    space: SearchSpace
    low: float
    high: float
    first: int = 0
    last: int = 0
    whole: bool = False
    log: bool = False
    step: float = 1

    @property
    def options(self) -> tuple[Any, ...]:
        """Choices of the search space; () for a numeric space."""
        return () if self.space.kind.parameters else self.space.arguments

    @property
    def is_constant(self) -> bool:
        """Whether the dimension has only one value."""
        return self.whole and self.first == self.last

    def value(self, coordinate: float) -> Any:
        """Value that a coordinate represents in the search space."""
        if self.whole:
            rounded = min(max(round(coordinate), self.first), self.last)
            return self.options[rounded] if self.options else multiple(rounded, self.step)
        coordinate = min(max(float(coordinate), self.low), self.high)
        return self._normal.inv_cdf(coordinate) if self._is_normal else coordinate

    def coordinate(self, value: Any) -> float:
        """Coordinate (number) that represents a value for searchers; the lowest one if several options are equal."""
        if self.options:
            return [as_text(option) for option in self.options].index(as_text(value))
        if self.whole:
            rounded: int = min(max(round(value / self.step), self.first), self.last)
            return rounded
        share = self._normal.cdf(value) if self._is_normal else value
        return min(max(float(share), self.low), self.high)

    def unit(self, coordinate: float) -> float:
        """Maps a coordinate (a number that represents a value) to [0, 1], logarithmically if `log`."""
        low, high = self._ends
        return (self._scaled(min(max(coordinate, self.low), self.high)) - low) / (high - low)

    def from_unit(self, unit: float) -> float:
        """Maps a position in [0, 1] to a coordinate (a number that represents a value), rounded if `whole`."""
        low, high = self._ends
        scaled = low + (high - low) * unit
        coordinate = math.exp(scaled) if self.log else scaled
        return self.coordinate(self.value(coordinate)) if self.whole else min(max(coordinate, self.low), self.high)

    def read(self, recorded: Any) -> Any:
        """Converts a value loaded from JSON back to the option that was saved; leaves numbers unchanged."""
        return self.value(self.coordinate(recorded)) if self.options else recorded

    @property
    def _is_normal(self) -> bool:
        return self.space.kind.name == "normal"

    @property
    def _normal(self) -> NormalDist:
        return NormalDist(*self.space.arguments)

    @property
    def _ends(self) -> tuple[float, float]:
        return self._scaled(self.low), self._scaled(self.high)

    def _scaled(self, coordinate: float) -> float:
        return math.log(coordinate) if self.log else coordinate


def dimensions_of(spaces: Mapping[Location, SearchSpace]) -> tuple[Dimension, ...]:
    """Converts each search space of an experiment to a numeric dimension, in the same order."""
    return tuple(_dimension(name, location, spaces[location]) for location, name in short_names(spaces).items())


def as_text(value: Any) -> str:
    """Serializes a value to JSON text that distinguishes options: 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


def _dimension(name: str, location: Location, space: SearchSpace) -> Dimension:
    arguments = space.arguments
    match space.kind.name:
        case "uniform" | "loguniform":
            low, high = arguments
            return Dimension(name, location, space, low, high, log=space.kind.positive)
        case "normal":
            return Dimension(name, location, space, TAIL, 1 - TAIL)
        case "qloguniform":  # drawn between the bounds, then rounded, so the outermost multiples are less likely
            low, high, q = arguments
            first, last = multiples(low, high, q)
            return Dimension(name, location, space, low / q, high / q, first, last, whole=True, log=True, step=q)
        case "quniform" | "qrandint":
            q = arguments[2]
            first, last = multiples(*arguments)
        case "randint" | "lograndint":
            q, first, last = 1, arguments[0], arguments[1] - 1
        case _:
            q, first, last = 1, 0, len(arguments) - 1
    log = space.kind.positive
    return Dimension(name, location, space, first - 0.5, last + 0.5, first, last, whole=True, log=log, step=q)
