"""Expansion of search spaces into configurations, trials and members of populations.

Each draw has its own generator, seeded by a seed, the location of the space and the number of the draw. So a spec
always gives the same trials, and a further space or a larger ``num_samples`` does not change the other draws.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlrun.explain import Location, dotted
from rlrun.functional.seeding import child_seed
from rlrun.spec.search_space import SearchSpace

Spaces = Mapping[Location, SearchSpace]


@dataclass(frozen=True)
class PlannedTrial:
    """Identity of a trial: its number, seed and varying settings.

    Attributes:
        index: Its number within the experiment.
        configuration: Number of its configuration, or of the member in its population.
        seed: Its seed, or its population's.
        values: Values of the settings that vary, by location in the entry.
    """

    index: int
    configuration: int
    seed: int
    values: dict[Location, Any]


def planned_trials(configurations: Sequence[dict[Location, Any]], seeds: Sequence[int]) -> Iterator[PlannedTrial]:
    """Yields the trials of a sweep: each configuration with every seed.

    Args:
        configurations: Result of `expand`.
        seeds: The seeds.
    """
    for number, values in enumerate(configurations):
        for place, seed in enumerate(seeds):
            yield PlannedTrial(number * len(seeds) + place, number, seed, values)


def planned_members(
    template: Mapping[str, Any],
    configurations: Sequence[dict[Location, Any]],
    mutated: Spaces,
    seeds: Sequence[int],
) -> Iterator[PlannedTrial]:
    """Yields the members of populations: for each seed a population with one member for each configuration.

    The initial value of a setting that the population changes is drawn if the template does not state it.

    Args:
        template: The entry's env and config as written.
        configurations: Result of `expand` for it.
        mutated: Search spaces of the settings that the population changes, by location.
        seeds: Seeds of the populations.
    """
    for place, seed in enumerate(seeds):
        for member, values in enumerate(configurations):
            data = fill(template, values)
            unstated = {location: space for location, space in mutated.items() if not is_stated(data, location)}
            starts = {location: draw(space, location, seed, member) for location, space in unstated.items()}
            yield PlannedTrial(place * len(configurations) + member, member, seed, values | starts)


def member_seed(population: int, member: int) -> int:
    """Root seed of a member of a population, below 2**31.

    Args:
        population: The population's seed.
        member: The member's number, from 0.
    """
    return child_seed(population, "member", member) >> 32


def fill(data: Any, values: Mapping[Location, Any], location: Location = ()) -> Any:
    """A copy of data with the values at some locations replaced."""
    if location in values:
        return values[location]
    if isinstance(data, Mapping):
        return {key: fill(value, values, (*location, key)) for key, value in data.items()}
    if isinstance(data, list):
        return [fill(value, values, (*location, index)) for index, value in enumerate(data)]
    return data


def is_stated(data: Any, location: Location) -> bool:
    """Whether data has a value at a location."""
    for step in location:
        if not (isinstance(data, Mapping) and step in data):
            return False
        data = data[step]
    return True


def value_at(data: Any, location: Location) -> Any:
    """The value of data at a location, which must exist."""
    for step in location:
        data = data[step]
    return data


def filled(data: Mapping[str, Any], values: Mapping[Location, Any]) -> dict[str, Any]:
    """A copy of data with values set at some locations, which need not exist before."""
    result: dict[str, Any] = fill(data, values)
    for location, value in values.items():
        place: Any = result
        for step in location[:-1]:
            place = place.setdefault(step, {}) if isinstance(place, dict) else place[step]
        place[location[-1]] = value
    return result


def count(spaces: Mapping[Location, SearchSpace], num_samples: int) -> int:
    """Number of configurations from `expand`."""
    return num_samples * math.prod(len(space.arguments) for space in spaces.values() if space.is_grid)


def expand(spaces: Mapping[Location, SearchSpace], num_samples: int, seed: int) -> list[dict[Location, Any]]:
    """Expands search spaces into configurations: each point of the grid, ``num_samples`` times, with new draws.

    Args:
        spaces: The spaces by their locations in the spec.
        num_samples: Number of passes over the grid.
        seed: Seed of all draws.

    Returns:
        The value at each space's location, for each configuration.
    """
    grids = {location: space for location, space in spaces.items() if space.is_grid}
    points = list(itertools.product(*(space.arguments for space in grids.values())))
    configurations = []
    for index, point in enumerate(point for _ in range(num_samples) for point in points):
        chosen = dict(zip(grids, point, strict=True))
        drawn = {
            location: chosen[location] if location in chosen else draw(space, location, seed, index)
            for location, space in spaces.items()
        }
        configurations.append(drawn)
    return configurations


def draw(space: SearchSpace, location: Location, seed: int, index: int) -> Any:
    """Draws a value for a location, deterministically.

    Args:
        space: The search space.
        location: Location of the value in the entry.
        seed: Seed of all draws.
        index: Number of the draw.
    """
    sequence = np.random.SeedSequence([seed, zlib.crc32(dotted(location).encode()), index])
    return space.draw(np.random.default_rng(sequence))
