"""Validation of a config or env section of an experiment, in which search spaces may replace values.

The section is validated first with the first value of every search space, and then once for every other listed value or
bound of a search space. Mistakes are reported at the position of the value that causes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, get_origin

from pydantic import ValidationError

from rlrun.engine.messages.errors import CheckpointError, EnvironmentUnusable, UsageError
from rlrun.engine.messages.explain import Location, Mistake, annotation_at, is_model, shown
from rlrun.engine.settings.config import AdaptiveRate, ConfigModel, config_in
from rlrun.experiments.spec.expansion import fill
from rlrun.experiments.spec.search_space import KINDS, SearchSpace, find_spaces, is_search_space, nearly_a_space

Model = TypeVar("Model", bound=ConfigModel)
Checked = TypeVar("Checked", bound=ConfigModel, covariant=True)

_WHOLE_KINDS = {
    "uniform": "randint",
    "normal": "randint",
    "loguniform": "lograndint",
    "quniform": "qrandint",
    "qloguniform": "qrandint",
}


class UnusableEnv(Mistake):
    """Problem with a valid env setting: the env requires a package that is not installed."""


@dataclass(frozen=True)
class Section(Generic[Checked]):
    """Section of an experiment (a config or an env), with the result of validating the section.

    Attributes:
        location: Location of the section in the experiment.
        model: Config class.
        data: The section as written.
        value: Parsed config, with the first value of every search space; None if invalid.
        spaces: Search spaces in the section, by location in the experiment.
        mistakes: Mistakes, with locations in the experiment.
        algorithm: Name of the configured algorithm; "" for other sections.
    """

    location: Location
    model: type[Checked]
    data: Any
    value: Checked | None
    spaces: dict[Location, SearchSpace]
    mistakes: list[Mistake]
    algorithm: str = ""


def check_section(
    model: type[Model],
    data: Any,
    location: Location,
    further: Callable[[Model], list[Mistake]] = lambda value: [],
    *,
    algorithm: str = "",
) -> Section[Model]:
    """Validates a section of an experiment (a config or an env), and all values of its search spaces.

    Args:
        model: Config class of the section.
        data: The section as written.
        location: Location of the section in the experiment, which is prefixed to the locations of mistakes and spaces.
        further: Function that runs further checks on a valid section, and returns mistakes with locations relative to
            the section.
        algorithm: Name of the configured algorithm; "" for other sections.
    """
    spaces, mistakes = find_spaces(data, location)
    mistakes += _almost_spaces(model, data, location)
    misread = [_meant_as_a_space(mistake) for mistake in mistakes]
    probes = {where: list(space.probes()) for where, space in spaces.items()}
    firsts = {where: probe[0] for where, probe in probes.items()}

    def check(chosen: Mapping[Location, tuple[Location, Any]]) -> tuple[Model | None, list[Mistake]]:
        filled = fill(data, {where: value for where, (_, value) in chosen.items()}, location)
        value, wrong = validate(model, filled)
        wrong = wrong if value is None else [*further(value), *_searched_rates(value, chosen, location)]
        wrong = [replace(mistake, location=(*location, *mistake.location)) for mistake in wrong]
        return value, [mistake for mistake in wrong if not overlaps(mistake.location, misread)]

    value, wrong = check(firsts)
    mistakes += [_locate_in_search_space(mistake, firsts) for mistake in wrong]
    known = set(wrong)
    for where, space in spaces.items():
        for probe in probes[where][1:]:
            new = [mistake for mistake in check({**firsts, where: probe})[1] if mistake not in known]
            if probe[0]:
                mistakes += [_locate_in_search_space(mistake, {where: probe}) for mistake in new]
            elif not any(mistake.location[: len(where)] == where for mistake in mistakes):
                mistakes += [_between_the_ends(mistake, where, space, probe[1]) for mistake in new]
    return Section(location, model, data, value, spaces, list(dict.fromkeys(mistakes)), algorithm)


def _meant_as_a_space(mistake: Mistake) -> Location:
    """Location of the mapping that was meant as a search space, given a mistake in it."""
    kinds = [number for number, step in enumerate(mistake.location) if step in KINDS]
    if kinds:
        return mistake.location[: kinds[0]]
    return mistake.location[:-1] if mistake.at_key else mistake.location


def _searched_rates(value: ConfigModel, chosen: Iterable[Location], location: Location) -> list[Mistake]:
    """Mistakes for search spaces of learning rates that adapt by themselves, located relative to the section."""
    message = "an adaptive learning rate cannot be searched: write one value"
    inner = [where[len(location) :] for where in chosen]
    adapts = [where for where in inner if where and isinstance(getattr(value, str(where[0]), None), AdaptiveRate)]
    return [Mistake(where, message) for where in adapts]


def refusals(location: Location, check: Callable[[], object], *, at_key: bool = False) -> list[Mistake]:
    """Calls a validation function, and returns the error that it raises as a list of one mistake; [] if it raises none.

    The mistake has the given location in the spec entry.
    """
    try:
        check()
    except (UsageError, CheckpointError) as error:
        return [Mistake(location, str(error), at_key)]
    except EnvironmentUnusable as error:
        return [UnusableEnv(location, str(error))]
    return []


def validate(model: type[Model], data: Any) -> tuple[Model | None, list[Mistake]]:
    """Parses data into a config class; returns the config, or None with the mistakes."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        return None, model.mistakes(error)


def overlaps(location: Location, others: Sequence[Location]) -> bool:
    """Whether one of two locations is a prefix of the other."""
    return any(location == other[: len(location)] or other == location[: len(other)] for other in others)


def _locate_in_search_space(mistake: Mistake, chosen: Mapping[Location, tuple[Location, Any]]) -> Mistake:
    """Relocates a mistake in a sampled value to this value within the search space: ``lr.1`` to ``lr.uniform.0.1``."""
    for where, (inside, _) in chosen.items():
        if mistake.at_key and mistake.location == where:  # about the key itself, not about its values
            return mistake
        if mistake.location[: len(where)] == where:
            rest = mistake.location[len(where) :]
            return replace(mistake, location=(*where, *inside, *rest))
    return mistake


def _between_the_ends(mistake: Mistake, where: Location, space: SearchSpace, value: Any) -> Mistake:
    """Error message for a search space whose bounds are valid, but whose intermediate values are not."""
    if mistake.location[: len(where)] != where:
        return mistake
    whole = _WHOLE_KINDS.get(space.kind.name) if "a whole number" in mistake.message else None
    hint = f"; use {whole}" if whole else ""
    wanted = mistake.message.removesuffix(f", not {shown(value)}")
    return Mistake(where, f"{space.kind.name} draws values such as {value:.4g}, but each {wanted}{hint}")


def _almost_spaces(model: type[ConfigModel], data: Any, location: Location) -> list[Mistake]:
    """Mistakes for mappings that resemble misspelled search spaces."""
    found = []
    for below, value in _mappings_in(data):
        annotation = annotation_at(model, below)
        hint = nearly_a_space(value, free_form=_takes_mappings(annotation))
        own = config_in(annotation)
        if hint and not (own and value.keys() <= own.model_fields.keys()):
            (name,) = value
            found.append(Mistake((*location, *below, name), f"unknown search space '{name}'{hint}", at_key=True))
        elif len(value) > 1 and not _takes_mappings(annotation) and KINDS.keys() & value.keys():
            message = f"a search space must be a mapping with one key, not {len(value)}: {', '.join(map(str, value))}"
            found.append(Mistake((*location, *below), message))
    return found


def _mappings_in(data: Any, location: Location = ()) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    """Yields nested mappings, with locations, that are not search spaces."""
    if is_search_space(data):
        return
    if isinstance(data, Mapping):
        yield location, data
    items = data.items() if isinstance(data, Mapping) else enumerate(data) if isinstance(data, list) else ()
    for step, value in items:
        yield from _mappings_in(value, (*location, step))


def _takes_mappings(annotation: Any) -> bool:
    """Whether a type annotation accepts a mapping: `Any`, a nested config, or a dictionary."""
    return annotation is Any or is_model(annotation) or get_origin(annotation) is dict or annotation is dict
