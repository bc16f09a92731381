"""Translation of one experiment: values, the keys that they come from, and remarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rlrun.bridges.translation.meanings import Impact, Remark, SettingOrigin
from rlrun.engine.messages.explain import Location
from rlrun.engine.settings.config import ConfigModel

RUN: Location = ("run",)
"""Location of values that the file does not contain, the other library's defaults: the algorithm's key `run`."""


MISFITS = (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError)
"""Exceptions of a conversion that mean an invalid value in the file."""


class Untranslatable(Exception):
    """Error: an experiment cannot be translated; holds the location of the key at fault."""

    def __init__(self, location: Location, message: str) -> None:
        super().__init__(message)
        self.location = location


class Origin(NamedTuple):
    """Origin of a translated value: path of keys in the original file, and the setting's original name."""

    location: Location
    key: str = ""


@dataclass
class TranslatedEntry:
    """Translation of one experiment from another library's file, with remarks.

    Attributes:
        source: Library, version and algorithm for which the file was written.
        values: Values of the entry by dotted path.
        origins: Origins of the values.
        remarks: Remarks on keys that were changed or left out.
        policies: Names of the policies in a multi-agent world; empty for a single agent.
    """

    source: SettingOrigin
    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    policies: list[str] = field(default_factory=list)

    def put(self, path: str, value: Any, location: Location, key: str = "") -> None:
        """Sets a value of the translated entry.

        Args:
            path: Dotted path of the value in the entry.
            value: The value.
            location: Location of the original key in the file.
            key: The setting's name in the other library; "" if that is the location's last key.
        """
        self.values[path] = value
        self.origins[path] = Origin(location, key)

    def leave_out_defaults(self, model: type[ConfigModel]) -> None:
        """Removes settings that come from a default of the other library and equal rlrun's defaults."""
        ours = model().to_data()
        for path, origin in list(self.origins.items()):
            if origin.location == RUN and path.startswith("config.") and _at(ours, path) == self.values[path]:
                del self.values[path], self.origins[path]

    def tell(self, location: Location, key: str, text: str, impact: Impact = Impact.SLIGHT) -> None:
        """Adds a remark on how a key of the file was translated."""
        self.remarks.append(Remark(location, key, text, impact))


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nests values given by dotted path into sections.

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
