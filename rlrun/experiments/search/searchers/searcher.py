"""Interface of searchers: stateless functions that map the history of a search to the next configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from rlrun.engine.messages.explain import Location
from rlrun.experiments.search.searchers.dimension import Dimension

Configuration = dict[Location, Any]
"""Type of a hyperparameter configuration: a value for each search space, by location."""


@dataclass
class History:
    """History of a search: suggested configurations and their scores.

    Attributes:
        dimensions: The search spaces with more than one value.
        mode: Whether higher values of the metric are better (max) or lower ones (min).
        configurations: Suggested configurations, by number (from 0).
        scores: Final scores, by configuration number; None for a failure.
        observations: Intermediate scores, by configuration number, then by budget.
        began: Times at which configurations were suggested, in seconds since 1970, by number.
        ended: Times at which configurations ended, in seconds since 1970, by number.
    """

    dimensions: tuple[Dimension, ...]
    mode: Literal["max", "min"]
    configurations: dict[int, Configuration] = field(default_factory=dict)
    scores: dict[int, float | None] = field(default_factory=dict)
    observations: dict[int, dict[float, float]] = field(default_factory=dict)
    began: dict[int, float] = field(default_factory=dict)
    ended: dict[int, float] = field(default_factory=dict)

    def loss(self, score: float | None) -> float:
        """Converts a score to a loss to be minimized, in either mode; infinite for a failure."""
        if score is None:
            return math.inf
        return -score if self.mode == "max" else score

    def scored(self) -> int:
        """Number of configurations with a score, final or intermediate."""
        ended = {number for number, score in self.scores.items() if score is not None}
        return len(ended | self.observations.keys())

    def coordinates(self, number: int) -> list[float]:
        """Converts a configuration, given by number, to a vector of coordinates, one number per search space."""
        values = self.configurations[number]
        return [dimension.coordinate(values[dimension.location]) for dimension in self.dimensions]

    def values_at(self, coordinates: list[float]) -> Configuration:
        """Converts a vector of coordinates, one number per search space, to a configuration."""
        return {
            dimension.location: dimension.value(coordinate)
            for dimension, coordinate in zip(self.dimensions, coordinates, strict=True)
        }


class Searcher(Protocol):
    """Interface of searchers, which suggest the next configuration from the history of the search and a seed.

    Searchers are stateless: the same history and seed give the same configuration in any process, so an interrupted
    search continues as if it had not been interrupted.
    """

    @property
    def uses_intermediate_results(self) -> bool:
        """Whether the searcher also learns from intermediate results."""

    def propose(self, history: History, seed: int) -> Configuration:
        """Suggests the next hyperparameter configuration.

        Args:
            history: History of the search, read-only, with at least one score.
            seed: Seed of all random draws, 32 bits.
        """
