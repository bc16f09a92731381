"""Settings of one experiment in another library's file, together with that library's defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from rlrun.bridges.translation.meanings import Has, Impact, SettingOrigin, known_settings, meaning_of
from rlrun.engine.messages.errors import did_you_mean

OMIT: Any = object()
"""Result of a conversion that leaves no value to set: it has set all values itself, or there are none."""


class Written(NamedTuple):
    """Value of a setting in rlrun, and the other library's key from which it was translated."""

    value: Any
    key: str


@cache
def default_table() -> Mapping[str, Mapping[str, Mapping[str, Mapping[str, Any]]]]:
    """Loads the default settings of other libraries: library -> version -> algorithm -> setting."""
    import yaml

    loaded: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("defaults.yaml").read_text("utf-8"))
    return loaded


def defaults_of(source: SettingOrigin) -> dict[str, Any]:
    """Default settings of an algorithm in another library that affect learning, under that library's names."""
    versions = default_table()[source.library]
    first = next(iter(versions))
    own = ".".join(map(str, source.version))
    found: dict[str, Any] = {}
    for version, name in ((first, "all"), (own, "all"), (first, source.algorithm), (own, source.algorithm)):
        found |= versions[version].get(name, {})
    return found


@dataclass
class ForeignSettings:
    """Settings of one experiment under another library's names, and the progress of their translation.

    Attributes:
        source: Library, version and algorithm.
        has: Predicate "the config of rlrun's algorithm has this setting".
        written: Settings of the file by dotted name.
        defaults: The library's defaults by dotted name.
        ours: Settings of rlrun translated so far, by dotted path in the entry.
        remarks: Remarks so far: key, text and impact.
        is_atari: Whether the env is an Atari game.
        horizon: Step limit of episodes; None if unknown.
        is_continuous: Whether the env is known to have continuous actions.
    """

    source: SettingOrigin
    has: Has
    written: Mapping[str, Any]
    defaults: Mapping[str, Any]
    ours: dict[str, Written] = field(default_factory=dict)
    remarks: list[tuple[str, str, Impact]] = field(default_factory=list)
    is_atari: bool = False
    horizon: int | None = None
    is_continuous: bool = False

    @property
    def algorithm(self) -> str:
        """Name of the algorithm in the other library."""
        return self.source.algorithm

    def get(self, key: str, otherwise: Any = None) -> Any:
        """Value of a setting in the file, or else the library's default."""
        return self.written.get(key, self.defaults.get(key, otherwise))

    def first(self, *keys: str, otherwise: Any = None) -> Any:
        """Value of a setting that has several names: the first one set in the file, or else the first default."""
        for known in (self.written, self.defaults):
            for key in keys:
                if key in known:
                    return known[key]
        return otherwise

    def section(self, *keys: str) -> dict[str, Any]:
        """Settings in a nested section of the file, such as `replay_buffer_config`, merged over the library's defaults.

        The section may have several names; its settings under all of them are merged.
        """
        merged: dict[str, Any] = {}
        for known in (self.defaults, self.written):
            for key in keys:
                merged |= known.get(key) or {}
        return merged

    def put(self, path: str, value: Any, key: str) -> None:
        """Sets a setting of rlrun.

        Args:
            path: Dotted path in the entry.
            value: The value.
            key: The other library's key from which the value was translated.
        """
        if key in self.written or path not in self.ours:  # a key of the file overrides a translated default
            self.ours[path] = Written(value, key)

    def tell(self, key: str, text: str, impact: Impact = Impact.SLIGHT) -> None:
        """Adds a remark on how a key of the file was translated."""
        self.remarks.append((key, text, impact))


Conversion = Callable[[ForeignSettings, str, Any], Any]
"""Type of a conversion: from the settings, a key and its value to rlrun's value, or `OMIT`."""


class Conversions(dict[str, Conversion]):
    """Registry of functions that convert other libraries' settings, by name; as a decorator, it adds a function."""

    def __call__(self, function: Conversion) -> Conversion:
        """Adds a conversion, and returns it unchanged."""
        self[function.__name__] = function
        return function


def translate_settings(foreign: ForeignSettings, conversions: Mapping[str, Conversion]) -> None:
    """Translates all settings of an experiment: those in the file, and the library's defaults.

    Args:
        foreign: The settings; the results and remarks are added to this object.
        conversions: Conversion functions by their names in the translation table.
    """
    for key in dict.fromkeys([*foreign.written, *foreign.defaults]):
        _translate(foreign, key, conversions)


def _translate(foreign: ForeignSettings, key: str, conversions: Mapping[str, Conversion]) -> None:
    value = foreign.get(key)
    names = (key, key.rpartition(".")[2])
    meaning = next(filter(None, (meaning_of(name, foreign.source, foreign.has) for name in names)), None)
    if meaning is not None and meaning.by:
        value = conversions[meaning.by](foreign, key, value)
        if value is not OMIT and meaning.path:
            foreign.put(meaning.path, value, key)
    elif meaning is not None and meaning.path and not meaning.text:
        foreign.put(meaning.path, value, key)
    elif key not in foreign.written:
        return
    elif meaning is None:
        near = did_you_mean(names[1], {*known_settings(), *foreign.defaults})
        foreign.tell(key, f"unknown{near}", Impact.LEARNING)
    elif meaning.path:
        foreign.tell(key, f"`{meaning.path}` here: {meaning.text}", Impact.LEARNING)
    else:
        foreign.tell(key, meaning.text, meaning.impact)


def only(allowed: tuple[Any, ...], text: str, impact: Impact) -> Conversion:
    """Creates a conversion for a setting that rlrun lacks: adds a remark unless the value matches rlrun's behavior.

    Args:
        allowed: Values that match rlrun's behavior.
        text: Remark to add for other values.
        impact: Impact of other values on learning.
    """

    def check(foreign: ForeignSettings, key: str, value: Any) -> Any:
        if value not in allowed:
            foreign.tell(key, text, impact)
        return OMIT

    return check
