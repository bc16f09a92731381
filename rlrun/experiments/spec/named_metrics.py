"""Metrics that a spec entry names: in its stop criteria, targets, best checkpoint, scheduler and searcher."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlrun.engine.messages.explain import Location
from rlrun.experiments.spec.stop_config import PLATEAU


def metric_keys(data: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """Yields the metrics that keys of an entry name, each with its location; also keys that set something else.

    Args:
        data: The entry, possibly invalid.
    """
    for key in ("stop", "expect"):
        for metric in as_section(data.get(key)):
            if metric != PLATEAU:
                yield (key, metric), metric


def metric_values(data: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """Yields the metrics that values of an entry name, each with its location.

    Args:
        data: The entry, possibly invalid.
    """
    places: list[Location] = [("stop", PLATEAU, "metric"), ("checkpoint", "best")]
    places += [(key, kind, "metric") for key in ("scheduler", "searcher") for kind in as_section(data.get(key))]
    for *outer, name in places:
        section: Any = data
        for key in outer:
            section = as_section(section).get(key)
        if isinstance(metric := as_section(section).get(name), str):
            yield (*outer, name), metric


def as_section(value: Any) -> Mapping[Any, Any]:
    """Returns a section of an entry as written; {} if the value is not a section, a mistake that checks report."""
    return value if isinstance(value, Mapping) else {}
