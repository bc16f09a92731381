"""Command-line overrides for spec files, ``--set path=value``, applied before validation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

from rlrun.engine.messages.errors import Problem, SpecError, UsageError
from rlrun.engine.messages.explain import Location, dotted, shown, unknown_name
from rlrun.engine.settings.registry import algorithm_class
from rlrun.experiments.spec.stages import STAGES
from rlrun.experiments.spec.yaml_nodes import Place
from rlrun.experiments.spec.yaml_source import Document, parse_value


def apply_overrides(documents: Sequence[Document], overrides: Sequence[str], keys: Sequence[str]) -> list[Problem]:
    """Applies ``path=value`` overrides to spec documents; the last override of a path wins.

    A path such as ``config.lr`` applies to every experiment; ``cartpole-ppo.config.lr``, which begins with an
    experiment's name, applies to this experiment only. In an entry with stages, a path applies to all stages that have
    the setting; ``stages.NAME.config.lr`` selects one. Missing mappings are created. Validation of the entry finds
    paths that do not exist; such mistakes name the override instead of a file.

    Args:
        documents: Documents whose data maps experiment names to entries; changed in place.
        overrides: Strings ``path=value``.
        keys: Valid keys of an experiment's entry.

    Returns:
        Problems with the overrides themselves, such as a missing ``=``.
    """
    problems: list[Problem] = []
    for override in overrides:
        try:
            _apply(documents, override, keys)
        except SpecError as error:
            problems += error.problems
    return problems


def _apply(documents: Sequence[Document], override: str, keys: Sequence[str]) -> None:
    place = Place(f"--set {override}")
    path, equals, text = override.partition("=")
    if not equals or not path or not all(path.split(".")):
        raise SpecError([place.problem("", "write --set path=value, such as --set config.lr=1e-3")])
    names = [name for document in documents for name in document.data]
    chosen = max((name for name in names if path.startswith(f"{name}.")), key=len, default=None)
    steps = path.removeprefix(f"{chosen}.").split(".") if chosen else path.split(".")
    if len(steps) > 1 and steps[0] not in keys:
        raise SpecError([place.problem("", unknown_name(steps[0], [*keys, *names], "unknown experiment or key"))])
    for document in documents:
        for name, entry in document.data.items():
            if chosen in (None, name) and isinstance(entry, dict):
                for inside in _targets(entry, steps, place):
                    _inherit(document, name, (*inside, *steps))
                    _put(document, (name, *inside), steps, parse_value(text, place.file), place)


def _targets(entry: dict[str, Any], steps: Sequence[str], place: Place) -> list[Location]:
    """Locations in an entry that an override reaches: the entry itself, or some of its stages.

    Without a stage's name, it reaches the stages whose algorithm has the setting or that contain the key; if there are
    none, the stages that have the section, else all stages.
    """
    stages = entry.get(STAGES)
    if not isinstance(stages, dict) or not all(isinstance(own, dict) for own in stages.values()):
        return [()]
    if steps[0] == STAGES:
        if len(steps) > 1 and steps[1] not in stages:
            raise SpecError([place.problem("", unknown_name(steps[1], [*stages], "unknown stage"))])
        return [()]
    merged = {name: {**entry, **own} for name, own in stages.items()}
    chosen = [name for name, stage in merged.items() if _takes(stage, steps)]
    chosen = chosen or [name for name, stage in merged.items() if stage.get(steps[0]) is not None] or [*stages]
    if len(chosen) == len(stages) and not any(steps[0] in own for own in stages.values()):
        return [()]
    return [(STAGES, name) for name in chosen]


def _takes(stage: dict[str, Any], steps: Sequence[str]) -> bool:
    section, *inside = steps
    if section == "config" and inside:
        with suppress(UsageError):
            return inside[0] in algorithm_class(str(stage.get("algorithm"))).Config.model_fields
    written = stage.get(section)
    return not inside or (isinstance(written, dict) and inside[0] in written)


def _inherit(document: Document, name: str, path: Location) -> None:
    """Copies a section around the stages into the stage in which an override changes a part of it."""
    entry = document.data[name]
    if path[0] == STAGES and len(path) > 3 and path[2] not in entry[STAGES][path[1]] and path[2] in entry:
        document.put((name, *path[:3]), deepcopy(entry[path[2]]), document.place((name, path[2])))


def _put(document: Document, start: Location, steps: Sequence[str], value: Any, place: Place) -> None:
    location = start
    container = document.data
    for step in start:
        container = container[step]
    for index, step in enumerate(steps):
        location = (*location, _step_into(container, step, location, place))
        if index == len(steps) - 1:
            document.put(location, value, place)
            return
        found = container.get(step) if isinstance(container, dict) else container[location[-1]]
        if found is None:
            document.put(location, {}, place)
        elif step == "env" and isinstance(found, str):  # a bare id stands for {id: ...}
            document.put(location, {"id": found}, document.place(location))
        elif index == 0 and step in ("scheduler", "searcher") and isinstance(found, str):  # a bare name: {name: {}}
            document.put(location, {found: {}}, document.place(location))
        elif not isinstance(found, dict | list):
            message = f"{dotted(location)} is {shown(found)}, which has no '{steps[index + 1]}'"
            raise SpecError([place.problem("", message)])
        container = container[location[-1]]


def _step_into(container: dict[str, Any] | list[Any], step: str, location: Location, place: Place) -> str | int:
    """Key or list index for one step of a path in a container."""
    if isinstance(container, dict):
        return step
    if step.isdecimal() and int(step) < len(container):
        return int(step)
    message = f"{dotted(location)} is a list of {len(container)}, which has no '{step}'; items count from 0"
    raise SpecError([place.problem("", message)])
