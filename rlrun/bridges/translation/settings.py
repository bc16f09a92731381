"""Translation of individual settings by the table of foreign names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rlrun.bridges.translation.foreign_settings import OMIT, ForeignSettings
from rlrun.bridges.translation.meanings import known_settings, meaning_of
from rlrun.bridges.translation.remarks import Impact
from rlrun.engine.messages.errors import did_you_mean

Conversion = Callable[[ForeignSettings, str, Any], Any]
"""Type of a conversion: from the settings, a key and its value to rlrun's value, or `OMIT`."""


class Conversions(dict[str, Conversion]):
    """Conversion functions for a family of settings, by name; usable as a decorator that registers a function."""

    def __call__(self, function: Conversion) -> Conversion:
        """Adds a conversion, and returns it unchanged."""
        self[function.__name__] = function
        return function


def translate_settings(foreign: ForeignSettings, conversions: Mapping[str, Conversion]) -> None:
    """Translates all settings of an experiment: those in the file, and the library's defaults.

    Args:
        foreign: The settings; results and remarks are added to it.
        conversions: Conversions by the names in the table.
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
    """Creates a conversion for a setting of which only some values are supported.

    Args:
        allowed: Values that correspond to rlrun's fixed behavior.
        text: Remark on other values.
        impact: Impact of other values on learning.
    """

    def check(foreign: ForeignSettings, key: str, value: Any) -> Any:
        if value not in allowed:
            foreign.tell(key, text, impact)
        return OMIT

    return check
