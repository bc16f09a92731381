"""Grids of a file of another library, as grids of rlrun's settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from rlrun.bridges.translation.entry import Refusal, TranslatedEntry
from rlrun.bridges.translation.remarks import Harm
from rlrun.engine.messages.explain import Location, dotted

GRID = "grid_search"


def with_grids(entry: Mapping[str, Any], translate: Callable[[Mapping[str, Any]], TranslatedEntry]) -> TranslatedEntry:
    """Translates an experiment with grids: each grid becomes one of the setting that varies with it.

    Args:
        entry: The experiment, with `{grid_search: [...]}` in places.
        translate: Translation of an experiment without grids.

    Raises:
        Refusal: Several settings of rlrun vary with one grid, or a grid is empty.
    """
    grids = dict(_grids(entry, ()))
    first = {location: values[0] for location, values in grids.items()}
    result = translate(_chosen(entry, first))
    base = dict(result.values)
    for location, values in grids.items():
        others = [translate(_chosen(entry, {**first, location: value})) for value in values[1:]]
        varying = [path for path in base if any(other.values.get(path) != base[path] for other in others)]
        if len(varying) > 1:
            names = " and ".join(varying)
            raise Refusal(location, f"{names} vary together with this grid; write one file for each value")
        for path in varying:
            listed = [base[path], *(other.values.get(path) for other in others)]
            if path == "seeds":
                result.values[path] = [seed for each in listed for seed in each]
                continue
            result.values[path] = {GRID: list(dict.fromkeys(listed)) if _are_plain(listed) else listed}
        if not varying and len(values) > 1:
            result.tell(location, dotted(location), "a grid without an effect here", Harm.NONE)
        result.remarks += [remark for other in others for remark in other.remarks]
    return result


def _grids(data: Any, location: Location) -> Iterator[tuple[Location, list[Any]]]:
    if not isinstance(data, Mapping):
        return
    if data.keys() == {GRID}:
        values = data[GRID]
        if not isinstance(values, list) or not values:
            raise Refusal(location, "grid_search needs a list of values")
        yield location, values
        return
    for key, value in data.items():
        yield from _grids(value, (*location, key))


def _chosen(entry: Mapping[str, Any], choices: Mapping[Location, Any]) -> Mapping[str, Any]:
    result: Any = deepcopy(dict(entry))
    for location, value in choices.items():
        section = result
        for step in location[:-1]:
            section = section[step]
        section[location[-1]] = value
    return dict(result)


def _are_plain(values: list[Any]) -> bool:
    return not any(isinstance(value, list | dict) for value in values)
