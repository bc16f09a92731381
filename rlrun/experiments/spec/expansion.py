"""Expansion of search spaces into configurations, trials and population members (grid and random search).

Each sample has its own random generator, seeded by the sweep's seed, the location of the search space and the number of
the sample. A spec therefore always expands to the same trials, and adding a space or increasing ``num_samples`` does
not change the other samples.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.messages.explain import Location, dotted
from rlrun.experiments.spec.search_space import SearchSpace

Spaces = Mapping[Location, SearchSpace]


@dataclass(frozen=True)
class PlannedTrial:
    """Trial of an experiment before its config is built: its number, seed and values of the varying hyperparameters.

    Attributes:
        index: Number of the trial within the experiment, from 0.
        configuration: Number of the hyperparameter configuration; in populations, the member's number.
        seed: Seed of the trial; in populations, the population's seed.
        values: Values of the varying settings, by location (path of keys) in the experiment's spec.
    """

    index: int
    configuration: int
    seed: int
    values: dict[Location, Any]


def planned_trials(configurations: Sequence[dict[Location, Any]], seeds: Sequence[int]) -> Iterator[PlannedTrial]:
    """Yields the trials of a sweep: the product of configurations and seeds.

    Args:
        configurations: The hyperparameter configurations, as `expand` returns them.
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
    """Yields the members of populations (PBT): one population per seed, one member per configuration.

    A mutated setting without a value in the template gets an initial value sampled from its search space.

    Args:
        template: The entry's env and config as written.
        configurations: The template's configurations, as `expand` returns them.
        mutated: Search spaces of the settings that the population mutates, by location.
        seeds: Seeds of the populations.
    """
    for place, seed in enumerate(seeds):
        for member, values in enumerate(configurations):
            data = fill(template, values)
            unstated = {location: space for location, space in mutated.items() if not has_value_at(data, location)}
            starts = {location: draw(space, location, seed, member) for location, space in unstated.items()}
            yield PlannedTrial(place * len(configurations) + member, member, seed, values | starts)


def member_seed(population: int, member: int) -> int:
    """Root seed of a population member, derived from the population's seed and the member's number; below 2**31.

    Args:
        population: The population's seed.
        member: The member's number, from 0.
    """
    return child_seed(population, "member", member) >> 32


def fill(data: Any, values: Mapping[Location, Any], location: Location = ()) -> Any:
    """Copies nested data, replacing the values at given locations, which must exist."""
    if location in values:
        return values[location]
    if isinstance(data, Mapping):
        return {key: fill(value, values, (*location, key)) for key, value in data.items()}
    if isinstance(data, list):
        return [fill(value, values, (*location, index)) for index, value in enumerate(data)]
    return data


def has_value_at(data: Any, location: Location) -> bool:
    """Whether nested data contains a value at a location."""
    for step in location:
        if not (isinstance(data, Mapping) and step in data):
            return False
        data = data[step]
    return True


def value_at(data: Any, location: Location) -> Any:
    """Looks up the value at an existing location of nested data."""
    for step in location:
        data = data[step]
    return data


def filled(data: Mapping[str, Any], values: Mapping[Location, Any]) -> dict[str, Any]:
    """Copies nested data, setting values at given locations; missing mappings are created."""
    result: dict[str, Any] = fill(data, values)
    for location, value in values.items():
        place: Any = result
        for step in location[:-1]:
            place = place.setdefault(step, {}) if isinstance(place, dict) else place[step]
        place[location[-1]] = value
    return result


def count(spaces: Mapping[Location, SearchSpace], num_samples: int) -> int:
    """Number of configurations that `expand` would return."""
    return num_samples * math.prod(len(space.arguments) for space in spaces.values() if space.is_grid)


def expand(spaces: Mapping[Location, SearchSpace], num_samples: int, seed: int) -> list[dict[Location, Any]]:
    """Expands search spaces: repeats the grid ``num_samples`` times, and samples the random spaces at each grid point.

    Args:
        spaces: The search spaces, by location in the spec.
        num_samples: Number of passes over the grid.
        seed: Seed of all samples.

    Returns:
        For each configuration, the value of each space, by the space's location.
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
    """Samples a value from a search space, deterministically by seed, location and index.

    Args:
        space: The search space.
        location: Location of the value in the entry.
        seed: Seed of all samples.
        index: Number of the sample.
    """
    sequence = np.random.SeedSequence([seed, zlib.crc32(dotted(location).encode()), index])
    return space.draw(np.random.default_rng(sequence))
