"""Validation of a part of an experiment, its config or its env, in which search spaces may stand for values.

The part is validated once with the first value of every search space, then once for every other listed value or end of
a space. Further mistakes are reported at the place where that value is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, get_origin

from pydantic import ValidationError

from rlrun.config import ConfigModel
from rlrun.errors import CheckpointError, EnvironmentUnusable, UsageError
from rlrun.explain import Location, Mistake, annotation_at, is_model, shown
from rlrun.spec.expansion import fill
from rlrun.spec.search_space import KINDS, SearchSpace, find_spaces, is_search_space, nearly_a_space

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
    """A valid env that cannot be used here because a package is missing."""


@dataclass(frozen=True)
class Section(Generic[Checked]):
    """A part of an experiment, and the result of validating it.

    Attributes:
        location: Its location in the experiment.
        model: Its config class.
        data: The part as written.
        value: The typed part, with the first value of every space; None if that is not valid.
        spaces: Its search spaces, by location in the experiment.
        mistakes: Its mistakes, likewise.
        algorithm: Name of the algorithm that it configures; "" for other parts.
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
    """Validates a part of an experiment.

    Args:
        model: Its config class.
        data: The part as written.
        location: Its location in the experiment, prefixed to the locations of its mistakes and spaces.
        further: A further check for valid parts; its locations are relative to the part.
        algorithm: Name of the algorithm that it configures; "" for other parts.
    """
    spaces, mistakes = find_spaces(data, location)
    mistakes += _almost_spaces(model, data, location)
    misread = [mistake.location for mistake in mistakes]
    probes = {where: list(space.probes()) for where, space in spaces.items()}
    firsts = {where: probe[0] for where, probe in probes.items()}

    def check(chosen: Mapping[Location, tuple[Location, Any]]) -> tuple[Model | None, list[Mistake]]:
        filled = fill(data, {where: value for where, (_, value) in chosen.items()}, location)
        value, wrong = validate(model, filled)
        wrong = wrong if value is None else further(value)
        wrong = [replace(mistake, location=(*location, *mistake.location)) for mistake in wrong]
        return value, [mistake for mistake in wrong if not concerns(mistake.location, misread)]

    value, wrong = check(firsts)
    mistakes += [_at_its_probe(mistake, firsts) for mistake in wrong]
    known = set(wrong)
    for where, space in spaces.items():
        for probe in probes[where][1:]:
            new = [mistake for mistake in check({**firsts, where: probe})[1] if mistake not in known]
            if probe[0]:
                mistakes += [_at_its_probe(mistake, {where: probe}) for mistake in new]
            elif not any(mistake.location[: len(where)] == where for mistake in mistakes):
                mistakes += [_between_the_ends(mistake, where, space, probe[1]) for mistake in new]
    return Section(location, model, data, value, spaces, list(dict.fromkeys(mistakes)), algorithm)


def refusals(location: Location, check: Callable[[], object], *, at_key: bool = False) -> list[Mistake]:
    """The error that a check raises as a mistake at a location; none if it passes."""
    try:
        check()
    except (UsageError, CheckpointError) as error:
        return [Mistake(location, str(error), at_key)]
    except EnvironmentUnusable as error:
        return [UnusableEnv(location, str(error))]
    return []


def validate(model: type[Model], data: Any) -> tuple[Model | None, list[Mistake]]:
    """The typed value of data, or None and the mistakes."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        return None, model.mistakes(error)


def concerns(location: Location, others: Sequence[Location]) -> bool:
    """Whether a location contains, or is in, one of others."""
    return any(location == other[: len(location)] or other == location[: len(other)] for other in others)


def _at_its_probe(mistake: Mistake, chosen: Mapping[Location, tuple[Location, Any]]) -> Mistake:
    """Moves a mistake in a space's value to where that value is written: ``lr.1`` to ``lr.uniform.0.1``."""
    for where, (inside, _) in chosen.items():
        if mistake.at_key and mistake.location == where:  # at the space's key, independent of its values
            return mistake
        if mistake.location[: len(where)] == where:
            rest = mistake.location[len(where) :]
            return replace(mistake, location=(*where, *inside, *rest))
    return mistake


def _between_the_ends(mistake: Mistake, where: Location, space: SearchSpace, value: Any) -> Mistake:
    """Message for a space whose ends are valid but not all values between them."""
    if mistake.location[: len(where)] != where:
        return mistake
    whole = _WHOLE_KINDS.get(space.kind.name) if "a whole number" in mistake.message else None
    hint = f"; use {whole}" if whole else ""
    wanted = mistake.message.removesuffix(f", not {shown(value)}")
    return Mistake(where, f"{space.kind.name} draws values such as {value:.4g}, and each {wanted}{hint}")


def _almost_spaces(model: type[ConfigModel], data: Any, location: Location) -> list[Mistake]:
    """Finds mappings that look like misspelt search spaces."""
    found = []
    for below, value in _mappings_in(data):
        annotation = annotation_at(model, below)
        hint = nearly_a_space(value, free_form=_takes_mappings(annotation))
        if hint:
            (name,) = value
            found.append(Mistake((*location, *below, name), f"unknown search space '{name}'{hint}", at_key=True))
        elif len(value) > 1 and not _takes_mappings(annotation) and KINDS.keys() & value.keys():
            message = f"a search space is a mapping with one key, not {len(value)}: {', '.join(map(str, value))}"
            found.append(Mistake((*location, *below), message))
    return found


def _mappings_in(data: Any, location: Location = ()) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    """Yields the mappings in a value that are no search spaces, with their locations."""
    if is_search_space(data):
        return
    if isinstance(data, Mapping):
        yield location, data
    items = data.items() if isinstance(data, Mapping) else enumerate(data) if isinstance(data, list) else ()
    for step, value in items:
        yield from _mappings_in(value, (*location, step))


def _takes_mappings(annotation: Any) -> bool:
    """Whether an annotation accepts a mapping: anything, a nested config, or a mapping of names to values."""
    return annotation is Any or is_model(annotation) or get_origin(annotation) is dict or annotation is dict
