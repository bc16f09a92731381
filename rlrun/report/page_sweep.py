"""Data of a sweep and of populations on a report page: axes of parameters, importance, lineage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rlrun.engine.settings.metric import Mode
from rlrun.experiments.spec.search_space import find_spaces
from rlrun.experiments.spec.seats import SEAT_KEYS
from rlrun.experiments.spec.trial_names import short_names
from rlrun.experiments.spec.tuning import kind_settings
from rlrun.report.configurations import Group, is_number, value_text
from rlrun.report.families import Family
from rlrun.report.importance import importance
from rlrun.report.page_curves import rounded
from rlrun.report.summary import summarise
from rlrun.report.timeline import history

LOGARITHMIC_FROM = 10.0
"""Ratio of a parameter's largest to smallest value from which its axis is logarithmic, unless a search space
decides."""

MOST_TICKS = 6
"""Maximum number of distinct values of a number that are the ticks of its axis, as for a grid."""


def sweep_data(
    groups: Sequence[Group], metric: str, mode: Mode, logarithmic: Mapping[str, bool]
) -> dict[str, Any] | None:
    """Data of a sweep: axes, scores, parameter importance and history; None if no parameter varies.

    Args:
        groups: The configurations, in the order of the run.
        metric: The metric by which trials are judged.
        mode: Whether higher or lower values of this metric are better.
        logarithmic: Whether the axis of a parameter is logarithmic, by name.
    """
    scored = [
        (summary.params, summary.mean.value, summary.label)
        for summary in summarise(groups, metric, mode)
        if summary.mean is not None and summary.params
    ]
    names = list(dict.fromkeys(name for params, _, _ in scored for name in params))
    found = [axis_data(name, [params.get(name) for params, _, _ in scored], logarithmic) for name in names]
    axes = [axis for axis in found if axis is not None]
    if len(scored) < 2 or not axes:
        return None
    scores = {label: score for _, score, label in scored}
    return {
        "axes": axes,
        "scores": rounded([score for _, score, _ in scored]),
        "labels": [label for _, _, label in scored],
        "importance": asdict(importance([params for params, _, _ in scored], [score for _, score, _ in scored])),
        "history": [asdict(step) for step in history(groups, scores, mode)],
    }


def axis_data(name: str, values: Sequence[Any], logarithmic: Mapping[str, bool]) -> dict[str, Any] | None:
    """Axis of a parameter: a linear or logarithmic range, or a list of choices; None for a constant parameter."""
    texts = [value_text(value) for value in values]
    if len(set(texts)) < 2:
        return None
    numbers = [float(value) for value in values if is_number(value)]
    if len(numbers) == len(values):
        is_log = min(numbers) > 0 and logarithmic.get(name, max(numbers) / min(numbers) >= LOGARITHMIC_FROM)
        distinct = sorted(set(numbers))
        ticks = {"ticks": distinct} if len(distinct) <= MOST_TICKS else {}
        axis = {"name": name, "kind": "log" if is_log else "linear", "values": [float(f"{n:.6g}") for n in numbers]}
        return axis | ticks
    choices = sorted(set(texts))
    return {"name": name, "kind": "choice", "choices": choices, "values": [choices.index(text) for text in texts]}


def logarithmic_parameters(spec: Mapping[str, Any]) -> dict[str, bool]:
    """Whether the search space or mutation of each numeric parameter is logarithmic, by parameter name."""
    found, _ = find_spaces({key: spec.get(key) for key in ("env", "config", "policies", *SEAT_KEYS)})
    known = {name: found[location].kind.name for location, name in short_names(found).items()}
    mutations = kind_settings(spec.get("scheduler")).get("mutations")
    if isinstance(mutations, dict):
        known |= {str(path): next(iter(space), "") for path, space in mutations.items() if isinstance(space, dict)}
    return {name: "log" in kind for name, kind in known.items() if kind not in ("choice", "grid_search")}


def family_data(family: Family, logarithmic: Mapping[str, bool]) -> dict[str, Any]:
    """Data of a population's lineage, and of the settings that its members went through."""
    names = list(dict.fromkeys(name for stretch in family.stretches for name in stretch.params))
    axes = [axis_data(name, [s.params.get(name) for s in family.stretches], logarithmic) for name in names]
    stretches = [
        {**asdict(stretch), "params": {name: value_text(value) for name, value in stretch.params.items()}}
        for stretch in family.stretches
    ]
    return {**asdict(family), "settings": [axis for axis in axes if axis is not None], "stretches": stretches}
