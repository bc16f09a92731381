"""Results without timing metrics: what two equal runs have in common."""

from collections.abc import Iterable, Mapping
from typing import Any

from rlrun.experiments.trial.results import is_timing


def numbers(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a result's metrics without times and rates."""
    return {name: value for name, value in result.items() if not is_timing(name)}


def all_numbers(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the same of each row."""
    return [numbers(row) for row in rows]
