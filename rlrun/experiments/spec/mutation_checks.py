"""Validation of the hyperparameters that a population mutates (pbt's mutations, pb2's bounds).

The checks parse the entry as written instead of typed settings, so they also work if the entry has other mistakes.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.messages.errors import did_you_mean
from rlrun.engine.messages.explain import (
    Location,
    Mistake,
    annotation_at,
    describe,
    dotted,
    is_model,
    shown,
    unknown_name,
)
from rlrun.engine.settings.config import AdaptiveRate, is_config
from rlrun.experiments.spec.expansion import filled, has_value_at, value_at
from rlrun.experiments.spec.experiment import setting_location
from rlrun.experiments.spec.search_space import SearchSpace, find_spaces, is_search_space
from rlrun.experiments.spec.section import Section, check_section

Part = Section[AlgorithmConfig]
MUTATIONS: Location = ("scheduler", "pbt", "mutations")
"""Location of PBT's mutations in a spec entry; search spaces there are not part of the sweep."""
BOUNDS: Location = ("scheduler", "pb2", "bounds")
"""Location of PB2's ranges in a spec entry."""
PLACES = ("num_workers", "num_cpus_per_worker", "num_learners", "num_gpus", "inference")
"""Settings that determine the CPUs and GPUs of a trial; a population cannot mutate them."""
_PATHS_OF_POLICIES = "; for a setting of a policy, write the whole path, such as policies.NAME.config.lr"


def check_mutations(entry: Mapping[str, Any], parts: Sequence[Part]) -> list[Mistake]:
    """Validates the settings that PBT and PB2 mutate: that they exist, and that sampled and initial values are valid.

    The syntax of search spaces and ranges is validated separately, by the types of the scheduler's settings.

    Args:
        entry: The entry as written.
        parts: Config sections of the entry.

    Returns:
        Mistakes, with locations in the entry.
    """
    mistakes: list[Mistake] = []
    if not all(isinstance(part.data, Mapping) for part in parts):
        return mistakes
    for below in (MUTATIONS, BOUNDS):
        written = value_at(entry, below) if has_value_at(entry, below) else None
        if not isinstance(written, Mapping):
            continue
        logs = value_at(entry, (*below[:-1], "log_scale")) if has_value_at(entry, (*below[:-1], "log_scale")) else []
        logs = logs if isinstance(logs, list) else []
        mistakes += _log_scale_mistakes(logs, written, below)
        sound: dict[str, SearchSpace] = {}
        for path, value in written.items():
            config = _part_of(path, parts)
            if config is None:
                mistakes.append(Mistake((*below, path), _no_part(path, parts), at_key=True))
            elif problem := _path_mistake(path, list(written), config, fractions=below == BOUNDS):
                mistakes.append(Mistake((*below, path), problem, at_key=True))
            elif space := (_range(value) if below == BOUNDS else _space(value)):
                sound[path] = space
        found = [mistake for part in parts for mistake in _field_mistakes(part, _within(part, sound), below)]
        mistakes += found
        wrong = {mistake.location[: len(below) + 1] for mistake in found}
        for part in parts:
            for path, space in _within(part, sound).items():
                if (*below, path) not in wrong:
                    mistakes += _start_mistakes(setting_location(path), space, (*below, path), part)
    return mistakes


def _part_of(path: str, parts: Sequence[Part]) -> Part | None:
    """Config that contains a setting's path, None if no config does."""
    location = setting_location(path)
    found = (part for part in parts if location[: len(part.location)] == part.location != location)
    return next(found, None)


def _within(part: Part, mutations: Mapping[str, SearchSpace]) -> dict[str, SearchSpace]:
    """The mutations whose settings belong to a given config."""
    return {path: space for path, space in mutations.items() if _part_of(path, [part])}


def _no_part(path: str, parts: Sequence[Part]) -> str:
    """Message on a path that is in no config."""
    places = [f"{dotted(part.location)}." for part in parts if part.location[0] == "policies"]
    if not places:
        return "there are no policies: write a path below config"
    return (
        f"must be a setting of a policy, such as {places[0]}lr{did_you_mean(path, [f'{place}lr' for place in places])}"
    )


def _space(value: Any) -> SearchSpace | None:
    """Search space of a mutation (pbt), None if invalid."""
    return find_spaces(value)[0].get(()) if is_search_space(value) else None


def _range(value: Any) -> SearchSpace | None:
    """Search space of a range (pb2), None if invalid."""
    return _space({"uniform": value})


def _log_scale_mistakes(logs: Sequence[Any], bounds: Mapping[str, Any], below: Location) -> Iterator[Mistake]:
    for index, path in enumerate(logs):
        if not isinstance(path, str):
            continue
        if path not in bounds:
            message = unknown_name(path, bounds, "must name one of the bounds: unknown name")
            yield Mistake((*below[:-1], "log_scale", index), message)
        elif (space := _range(bounds[path])) and space.arguments[0] <= 0:
            message = f"low must be > 0 for log_scale, not {shown(space.arguments[0])}"
            yield Mistake((*below, path, 0), message)


def _path_mistake(path: str, others: Sequence[str], config: Part, *, fractions: bool) -> str:
    """Message on a setting that no population can mutate; "" for a mutable setting.

    Args:
        path: The setting's path.
        others: Paths of all settings that the population mutates.
        config: The config that contains the setting.
        fractions: Whether the setting must accept fractions.
    """
    steps = setting_location(path)[len(config.location) :]
    if steps[0] in ("config", "env") and steps[0] not in config.model.model_fields:
        rest = path.partition(".")[2]
        return f"is relative to config: write '{rest}'" if steps[0] == "config" and rest else "must be below config"
    if not _is_setting(config.model, steps):
        return _why_gone(steps, config) or f"unknown setting '{path}'{_similar(path, dotted(steps), config)}"
    if isinstance(getattr(config.value, str(steps[0]), None), AdaptiveRate):
        return "cannot change in a population, because it adapts to the KL divergence by itself"
    fixed = _why_fixed(dotted(steps), config.model) or _overlap(path, steps, others, config)
    annotation = annotation_at(config.model, tuple(steps))
    if not fixed and fractions and not _takes_fractions(annotation):
        return f"pb2 supports only floating-point settings, and this must be {describe(annotation)}: use pbt"
    return fixed


def _why_gone(steps: Location, config: Part) -> str:
    """Reason why a config refuses a setting: a fixed one, or one of another library; "" for an unknown setting."""
    section = annotation_at(config.model, tuple(steps[:-1]))
    gone = section.why_gone(str(steps[-1])) if is_config(section) else ""
    return gone.replace(" set here", f" set for {config.algorithm}", 1) if config.algorithm else gone


def _similar(path: str, inner: str, config: Part) -> str:
    """Hint at the setting that an unknown path is likely to mean, or at the list of all settings.

    Args:
        path: The path.
        inner: The path's part within the config.
        config: The config.
    """
    prefix = path.removesuffix(inner)
    paths = list(_paths(config.model))
    if alike := [known for known in paths if known.rpartition(".")[2] == inner]:
        return f"; did you mean '{prefix}{alike[0]}'?"
    see = f"; see `rlrun config {config.algorithm}`" if config.algorithm else _PATHS_OF_POLICIES
    return did_you_mean(path, [f"{prefix}{known}" for known in paths]) or see


def _why_fixed(inner: str, model: type[AlgorithmConfig]) -> str:
    """Reason why all trials of a population must have equal values of a setting; "" if values may differ."""
    if model.shapes_parameters(inner):
        return "cannot change in a population, because members copy each other's weights"
    if inner in PLACES:
        return "cannot change in a population, because CPUs and GPUs are reserved when a trial starts"
    return ""


def _overlap(path: str, steps: Location, others: Sequence[str], config: Part) -> str:
    """Message on a setting inside another mutated one, or inside a search space of the config; "" for neither."""
    if outer := next((other for other in others if path.startswith(f"{other}.")), None):
        return f"is part of '{outer}', which also changes"
    inside: Any = config.data
    for number, step in enumerate(steps):
        if number and is_search_space(inside):
            return f"is part of '{dotted(steps[:number])}', which is a search space in {dotted(config.location)}"
        inside = inside.get(step) if isinstance(inside, Mapping) else None
    return ""


def _is_setting(model: type[BaseModel], steps: Location) -> bool:
    """Whether a path is a setting of a config class, or an item of a mapping in it."""
    if steps[0] not in model.model_fields:
        return False
    inner = model.model_fields[str(steps[0])].annotation
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
    """Whether an annotation accepts fractions."""
    if annotation in (float, Any):
        return True
    origin = get_origin(annotation)
    if origin is Annotated:
        return _takes_fractions(get_args(annotation)[0])
    return origin in (Union, types.UnionType) and any(map(_takes_fractions, get_args(annotation)))


def _field_mistakes(config: Part, mutations: Mapping[str, SearchSpace], below: Location) -> list[Mistake]:
    """Validates that settings accept sampled values: both bounds of ranges, and constraints across fields."""
    if not mutations:
        return []
    places = {setting_location(path): path for path in mutations}
    steps = len(config.location)
    spaces = {place[steps:]: mutations[path].to_data() for place, path in places.items()}
    mistakes = []
    for mistake in check_section(config.model, filled(config.data, spaces), config.location).mistakes:
        inside = next((place for place in places if mistake.location[: len(place)] == place), None)
        if inside is not None:
            rest = mistake.location[len(inside) + (below == BOUNDS) :]  # bounds do not name a kind of space
            mistakes.append(replace(mistake, location=(*below, places[inside], *rest)))
        elif config.value is not None:
            mistakes.append(replace(mistake, location=below))
    return mistakes


def _start_mistakes(location: Location, space: SearchSpace, where: Location, config: Part) -> list[Mistake]:
    """Validates that the initial value of a mutated setting is within the search space."""
    inner = location[len(config.location) :]
    starts = []
    if location in config.spaces:
        starts = [value for _, value in config.spaces[location].probes()]
    elif has_value_at(config.data, inner):
        starts = [value_at(config.data, inner)]
    outside = [start for start in starts if not space.holds(start)]
    if not outside:
        return []
    allowed = shown(list(space.arguments))
    message = f"{dotted(location)} starts at {shown(outside[0])}, which is outside {allowed}: change one of them"
    return [Mistake(where, f"{message}, or leave it out to draw the start at random")]
