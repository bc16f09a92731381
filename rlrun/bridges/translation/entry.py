"""A translated experiment: values with the places that they come from, and remarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rlrun.bridges.translation.meanings import Impact, Remark, SettingOrigin
from rlrun.engine.messages.explain import Location
from rlrun.engine.settings.config import ConfigModel

RUN: Location = ("run",)
"""Origin of what follows from the algorithm: the other library's defaults."""


MISFITS = (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError)
"""Errors of conversions on values that are not of the other library's kind."""


class Untranslatable(Exception):
    """Error: an experiment that cannot be translated, with the place of the key at fault."""

    def __init__(self, location: Location, message: str) -> None:
        super().__init__(message)
        self.location = location


class Origin(NamedTuple):
    """Origin of a value: its location in the file, and the other library's name; "" if that is the location's key."""

    location: Location
    key: str = ""


@dataclass
class TranslatedEntry:
    """Translation of one experiment.

    Attributes:
        source: Library, version and algorithm that it was read as.
        values: Values of the entry by dotted path.
        origins: Origins of the values.
        remarks: Remarks on keys that were changed or left out.
        policies: Names of the policies of a world of many agents; empty for one agent.
    """

    source: SettingOrigin
    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    policies: list[str] = field(default_factory=list)

    def put(self, path: str, value: Any, location: Location, key: str = "") -> None:
        """Sets a value of the entry.

        Args:
            path: Dotted path in the entry.
            value: The value.
            location: Location in the file of the key that it comes from.
            key: The other library's name; "" if that is the location's last key.
        """
        self.values[path] = value
        self.origins[path] = Origin(location, key)

    def leave_out_defaults(self, model: type[ConfigModel]) -> None:
        """Leaves out settings that follow from a default of the other library and are rlrun's defaults too."""
        ours = model().to_data()
        for path, origin in list(self.origins.items()):
            if origin.location == RUN and path.startswith("config.") and _at(ours, path) == self.values[path]:
                del self.values[path], self.origins[path]

    def tell(self, location: Location, key: str, text: str, impact: Impact = Impact.SLIGHT) -> None:
        """Adds a remark on a key."""
        self.remarks.append(Remark(location, key, text, impact))


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nests values by dotted path into sections.

    Examples:
        >>> nested({"stop.env_steps": 9, "algorithm": "ppo"})
        {'stop': {'env_steps': 9}, 'algorithm': 'ppo'}
    """
    result: dict[str, Any] = {}
    for path, value in values.items():
        *sections, name = path.split(".")
        section = result
        for step in sections:
            section = section.setdefault(step, {})
        section[name] = value
    return result


def _at(data: Mapping[str, Any], path: str) -> Any:
    value: Any = {"config": data}
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
