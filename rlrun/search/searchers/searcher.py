"""What a searcher is: from all that is known of a search to the next configuration, and nothing kept in between."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from rlrun.explain import Location
from rlrun.search.searchers.dimension import Dimension

Configuration = dict[Location, Any]
"""A value for each search space, by its location."""


@dataclass
class History:
    """All that a search has come to know.

    Attributes:
        dimensions: The search spaces that have more than one value.
        mode: Whether more of the metric is better (max) or less (min).
        configurations: What was suggested, by number.
        scores: Those that have ended, by number; None for a failure.
        observations: How those stood on the way, by number and budget.
        began: When each was suggested, in seconds since 1970, by number.
        ended: When each ended, likewise.
    """

    dimensions: tuple[Dimension, ...]
    mode: Literal["max", "min"]
    configurations: dict[int, Configuration] = field(default_factory=dict)
    scores: dict[int, float | None] = field(default_factory=dict)
    observations: dict[int, dict[float, float]] = field(default_factory=dict)
    began: dict[int, float] = field(default_factory=dict)
    ended: dict[int, float] = field(default_factory=dict)

    def loss(self, score: float | None) -> float:
        """Returns a score as a loss, of which less is better, whatever the mode; a failure is infinitely bad."""
        if score is None:
            return math.inf
        return -score if self.mode == "max" else score

    def scored(self) -> int:
        """Returns how many configurations have a score, even if only one on the way."""
        ended = {number for number, score in self.scores.items() if score is not None}
        return len(ended | self.observations.keys())

    def coordinates(self, number: int) -> list[float]:
        """Returns the coordinates of a configuration, in the order of the dimensions."""
        return self.coordinates_of(self.configurations[number])

    def coordinates_of(self, values: Mapping[Location, Any]) -> list[float]:
        """Returns the coordinates of some values, in the order of the dimensions."""
        return [dimension.coordinate(values[dimension.location]) for dimension in self.dimensions]

    def values_at(self, coordinates: list[float]) -> Configuration:
        """Returns the values at some coordinates, which are in the order of the dimensions."""
        return {
            dimension.location: dimension.value(coordinate)
            for dimension, coordinate in zip(self.dimensions, coordinates, strict=True)
        }


class Searcher(Protocol):
    """Chooses the next configuration from the history of the search and a seed.

    It keeps nothing from one call to the next: the same history and seed give the same configuration, in whatever
    process. That is what lets an interrupted search go on as if it had not been.

    Attributes:
        hears_budgets: Whether it learns from results on the way, not from the last ones only.
    """

    @property
    def hears_budgets(self) -> bool:
        """Whether it learns from results on the way, not from the last ones only."""

    def propose(self, history: History, seed: int) -> Configuration:
        """Returns the next configuration; the history is left as it is.

        Args:
            history: What is known, with at least one score in it.
            seed: From which all its draws derive, 32 bits.
        """
