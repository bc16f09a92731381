"""Whether an entry's scheduler and searcher fit its search spaces, its config, what it stops by, and each other."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from rlrun.algorithm_config import AlgorithmConfig
from rlrun.errors import did_you_mean
from rlrun.explain import Location, Mistake, annotation_at, describe, dotted, is_model, shown, unknown_name
from rlrun.spec.expansion import Spaces, count, filled, is_stated, value_at
from rlrun.spec.experiment import RunSettings
from rlrun.spec.search_space import SearchSpace, is_search_space
from rlrun.spec.section import check_section
from rlrun.spec.tuning import (
    AshaConfig,
    BohbConfig,
    HyperBandConfig,
    MedianConfig,
    ModelSearchConfig,
    Pb2Config,
    PbtConfig,
)


def check_tuning(
    settings: RunSettings, algorithm: str, template: Mapping[str, Any], config: AlgorithmConfig, spaces: Spaces
) -> list[Mistake]:
    """Checks an entry's scheduler and searcher.

    Args:
        settings: What the entry says besides algorithm, env and config.
        algorithm: Name of its algorithm.
        template: Its env and config as they were written.
        config: Its config with the first value of every search space.
        spaces: Its search spaces, by location.

    Returns:
        What is wrong, with locations in the entry.
    """
    mistakes = [*_searcher_mistakes(settings, spaces), *_partner_mistakes(settings)]
    if settings.scheduler is None:
        return mistakes
    scheduler = settings.scheduler.settings
    where: Location = ("scheduler", settings.scheduler.kind)
    if isinstance(scheduler, PbtConfig | Pb2Config):
        below: Location = (*where, "mutations" if isinstance(scheduler, PbtConfig) else "bounds")
        mistakes += _population_mistakes(settings, scheduler, where, config, spaces)
        mistakes += _mutation_mistakes(scheduler, below, algorithm, template, config, spaces)
        return mistakes
    searches = settings.searcher is not None and settings.searcher.settings is not None
    trials = (settings.num_samples if searches else count(spaces, settings.num_samples)) * len(settings.seeds)
    if trials == 1:
        message = f"{settings.scheduler.kind} compares trials and there is one: add a search space and num_samples"
        mistakes.append(Mistake(where, message))
    return [*mistakes, *_time_mistakes(settings, scheduler, where)]


def _searcher_mistakes(settings: RunSettings, spaces: Spaces) -> Iterator[Mistake]:
    """Yields what a searcher cannot work with."""
    if settings.searcher is None or settings.searcher.settings is None:
        return
    name = settings.searcher.kind
    if settings.scheduler is not None and settings.scheduler.population is not None:
        message = (
            f"{settings.scheduler.kind} finds the settings itself: drop the searcher, or take a scheduler such as asha"
        )
        yield Mistake(("searcher",), message)
        return
    grids = [location for location, space in spaces.items() if space.is_grid]
    for location in grids:
        yield Mistake((*location, "grid_search"), f"{name} chooses the values: write choice, or drop searcher", True)
    if not spaces:
        yield Mistake(("searcher",), f"{name} has nothing to choose: put a search space below config or env")
    elif not grids and settings.num_samples == 1:
        message = f"{name} makes as many suggestions as num_samples says, and one is no search: add num_samples"
        yield Mistake(("searcher",), message)


def _partner_mistakes(settings: RunSettings) -> Iterator[Mistake]:
    """Yields where bohb is half there: its scheduler and its searcher go with nothing but each other."""
    scheduler = None if settings.scheduler is None else settings.scheduler.bohb
    searcher = None if settings.searcher is None else settings.searcher.bohb
    if scheduler is not None and searcher is None:
        message = "goes with the searcher of the same name: add searcher: bohb, or write scheduler: hyperband"
        yield Mistake(("scheduler", "bohb"), message)
    if searcher is not None and scheduler is None and not (settings.scheduler and settings.scheduler.population):
        instead = "instead of the one that is there" if settings.scheduler else "beside it"
        message = f"goes with the scheduler of the same name: write scheduler: bohb {instead}, or searcher: optuna"
        yield Mistake(("searcher", "bohb"), message)
    if scheduler is not None and searcher is not None:
        yield from _disagreements(scheduler, searcher)


def _disagreements(scheduler: BohbConfig, searcher: ModelSearchConfig) -> Iterator[Mistake]:
    for name in ("metric", "mode"):
        ours, theirs = getattr(searcher, name), getattr(scheduler, name)
        if ours != theirs:
            message = f"the scheduler bohb has the {name} {theirs}, which must be the searcher's too, not {ours}"
            yield Mistake(("searcher", "bohb", name), message)


def _time_mistakes(
    settings: RunSettings, scheduler: AshaConfig | HyperBandConfig | MedianConfig, where: Location
) -> Iterator[Mistake]:
    """Yields what is wrong with the times at which trials are judged."""
    counter = scheduler.time_attr
    ends = settings.stop.get(counter)
    missing = f"is needed where nothing stops by {counter}: write it here, or add {counter} to stop"
    if isinstance(scheduler, MedianConfig):
        if scheduler.grace_period is None and ends is None:
            yield Mistake((*where, "grace_period"), missing)
        if scheduler.grace_period is not None and ends is not None and scheduler.grace_period >= ends:
            message = f"must be below stop.{counter} ({shown(ends)}), not {shown(scheduler.grace_period)}"
            yield Mistake((*where, "grace_period"), message)
        return
    if scheduler.max_t is None and ends is None:
        yield Mistake((*where, "max_t"), missing)
    elif isinstance(scheduler, AshaConfig):
        limit, first = scheduler.limit(settings.stop), scheduler.first_rung(settings.stop)
        limits = f"max_t ({shown(limit)})" if scheduler.max_t is not None else f"stop.{counter} ({shown(limit)})"
        if first >= limit:
            yield Mistake((*where, "grace_period"), f"must be below {limits}, not {shown(first)}")
        elif (last := first * scheduler.reduction_factor ** (scheduler.brackets - 1)) >= limit:
            message = f"the last bracket's first rung would be at {last:g}, which must be below {limits}"
            yield Mistake((*where, "brackets"), message)


def _population_mistakes(
    settings: RunSettings,
    population: PbtConfig | Pb2Config,
    where: Location,
    config: AlgorithmConfig,
    spaces: Spaces,
) -> Iterator[Mistake]:
    """Yields what populations cannot be made of."""
    kind = where[-1]
    if count(spaces, settings.num_samples) == 1:
        message = (
            f"a population of one has nobody to learn from: add num_samples, the members of a population, to {kind}"
        )
        yield Mistake(where, message)
    for location in spaces:
        if location[0] == "env" or config.shapes_parameters(dotted(location[1:])):
            message = "cannot vary in a population: its members take over each other's weights"
            yield Mistake(location, message)
    interval = population.interval_env_steps
    largest = max([config.train_batch_size, *_values_of("train_batch_size", population.spaces, spaces)])
    if interval < largest:
        message = f"must be at least train_batch_size ({largest:,}), the env steps of one iteration, not {interval:,}"
        yield Mistake((*where, "interval_env_steps"), message)
    elif (ends := settings.stop.get("env_steps")) is not None and interval >= ends:
        message = f"must be below stop.env_steps ({ends:,.0f}), or nobody ever learns from another, not {interval:,}"
        yield Mistake((*where, "interval_env_steps"), message)


def _values_of(field: str, mutations: Mapping[str, SearchSpace], spaces: Spaces) -> list[int]:
    """Returns what a whole number of the config may be, ends of ranges for all that is between them."""
    found = [space for location, space in spaces.items() if location == ("config", field)]
    found += [space for path, space in mutations.items() if path == field]
    return [int(value) for space in found for _, value in space.probes()]


def _mutation_mistakes(
    population: PbtConfig | Pb2Config,
    below: Location,
    algorithm: str,
    template: Mapping[str, Any],
    config: AlgorithmConfig,
    spaces: Spaces,
) -> list[Mistake]:
    """Checks the settings that a population changes: that they exist, take what is drawn, and start within it."""
    mistakes = list(_log_scale_mistakes(population, below[:-1])) if isinstance(population, Pb2Config) else []
    spoilt = {mistake.location[len(below)] for mistake in mistakes if mistake.location[: len(below)] == below}
    sound: dict[str, SearchSpace] = {}
    for path, space in population.spaces.items():
        if problem := _path_mistake(path, population, algorithm, config, template):
            mistakes.append(Mistake((*below, path), problem, at_key=True))
        elif path not in spoilt:
            sound[path] = space
    found = _field_mistakes(type(config), template["config"], sound, below)
    mistakes += found
    wrong = {mistake.location[: len(below) + 1] for mistake in found}
    for path, space in sound.items():
        if (*below, path) not in wrong:
            mistakes += _start_mistakes(path, space, (*below, path), template, spaces)
    return mistakes


def _log_scale_mistakes(population: Pb2Config, where: Location) -> Iterator[Mistake]:
    for index, path in enumerate(population.log_scale):
        if path not in population.bounds:
            message = unknown_name(path, population.bounds, "must name one of the bounds: there is no")
            yield Mistake((*where, "log_scale", index), message)
        elif (low := population.bounds[path][0]) <= 0:
            message = f"low must be > 0 for a logarithm (log_scale), not {shown(low)}"
            yield Mistake((*where, "bounds", path, 0), message)


def _path_mistake(
    path: str,
    population: PbtConfig | Pb2Config,
    algorithm: str,
    config: AlgorithmConfig,
    template: Mapping[str, Any],
) -> str:
    """Says why a setting cannot be changed, whatever is drawn for it; "" if it can."""
    steps = path.split(".")
    if steps[0] in ("config", "env") and steps[0] not in type(config).model_fields:
        rest = path.partition(".")[2]
        return f"begins below config: write '{rest}'" if steps[0] == "config" and rest else "must be below config"
    if not _is_setting(type(config), steps):
        paths = list(_paths(type(config)))
        alike = [known for known in paths if known.rpartition(".")[2] == path]
        hint = f"; did you mean '{alike[0]}'?" if alike else did_you_mean(path, paths)
        return f"there is no setting '{path}'{hint or f'; see `rlrun config {algorithm}`'}"
    if config.shapes_parameters(path):
        return "cannot change in a population: its members take over each other's weights"
    if outer := next((other for other in population.spaces if path.startswith(f"{other}.")), None):
        return f"lies in '{outer}', which changes too"
    inside: Any = template["config"]
    for number, step in enumerate(steps):
        if number and is_search_space(inside):
            return f"lies in '{'.'.join(steps[:number])}', which is a search space in config"
        inside = inside.get(step) if isinstance(inside, Mapping) else None
    annotation = annotation_at(type(config), tuple(steps))
    if isinstance(population, Pb2Config) and not _takes_fractions(annotation):
        return f"pb2 explores numbers with a fraction, and this must be {describe(annotation)}: use pbt"
    return ""


def _is_setting(model: type[BaseModel], steps: Sequence[str]) -> bool:
    """Tells whether a path leads to a setting of a config class, or into a mapping of names to values."""
    if steps[0] not in model.model_fields:
        return False
    inner = model.model_fields[steps[0]].annotation
    if len(steps) == 1 or inner is Any or inner is dict or get_origin(inner) is dict:
        return True
    return is_model(inner) and _is_setting(inner, steps[1:])


def _paths(model: type[BaseModel]) -> Iterator[str]:
    """Yields the paths of all settings of a config class."""
    for name, field in model.model_fields.items():
        yield name
        if is_model(field.annotation):
            yield from (f"{name}.{path}" for path in _paths(field.annotation))


def _takes_fractions(annotation: Any) -> bool:
    """Tells whether an annotation accepts a number with a fraction."""
    if annotation in (float, Any):
        return True
    origin = get_origin(annotation)
    if origin is Annotated:
        return _takes_fractions(get_args(annotation)[0])
    return origin in (Union, types.UnionType) and any(map(_takes_fractions, get_args(annotation)))


def _field_mistakes(
    model: type[AlgorithmConfig], config: Mapping[str, Any], mutations: Mapping[str, SearchSpace], below: Location
) -> list[Mistake]:
    """Checks that the config takes what is drawn for its settings, both ends of ranges and rules across fields."""
    places = {("config", *path.split(".")): path for path in mutations}
    data = filled({"config": config}, {place: mutations[path].to_data() for place, path in places.items()})
    mistakes = []
    for mistake in check_section(model, data["config"], ("config",)).mistakes:
        inside = next((place for place in places if mistake.location[: len(place)] == place), None)
        location = (
            below if inside is None else (*below, places[inside], *_written(mistake.location[len(inside) :], below))
        )
        mistakes.append(replace(mistake, location=location))
    return mistakes


def _written(inside: Location, below: Location) -> Location:
    """Returns where in a mutation a value of its space is written; bounds have no name of a space above it."""
    return inside[1:] if below[-1] == "bounds" else inside


def _start_mistakes(
    path: str, space: SearchSpace, where: Location, template: Mapping[str, Any], spaces: Spaces
) -> list[Mistake]:
    """Checks that what the config states for a setting that changes is something it may change to."""
    location: Location = ("config", *path.split("."))
    starts = []
    if location in spaces:
        starts = [value for _, value in spaces[location].probes()]
    elif is_stated(template, location):
        starts = [value_at(template, location)]
    message = "config.{} starts at {}, which is not within {}: change one of them, or drop it from config for a draw"
    return [
        Mistake(where, message.format(path, shown(start), shown(list(space.arguments))))
        for start in starts
        if not space.holds(start)
    ][:1]
