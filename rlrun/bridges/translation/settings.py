"""Translation of settings, one by one, by the table of foreign names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rlrun.bridges.translation.meanings import known_settings, meaning_of
from rlrun.bridges.translation.remarks import Harm
from rlrun.bridges.translation.theirs import OMIT, Theirs
from rlrun.engine.messages.errors import did_you_mean

Conversion = Callable[[Theirs, str, Any], Any]
"""Type of a conversion: from the settings, a key and its value to rlrun's value, or `OMIT`."""


class Conversions(dict[str, Conversion]):
    """Conversions of one family of settings by name; as a decorator it adds a function under the function's name."""

    def __call__(self, function: Conversion) -> Conversion:
        """Adds a conversion, and returns it unchanged."""
        self[function.__name__] = function
        return function


def translate_settings(theirs: Theirs, conversions: Mapping[str, Conversion]) -> None:
    """Translates all settings of an experiment, those of the file and the library's defaults.

    Args:
        theirs: The settings; results and remarks are added to it.
        conversions: Conversions by the names in the table.
    """
    for key in dict.fromkeys([*theirs.written, *theirs.defaults]):
        _translate(theirs, key, conversions)


def _translate(theirs: Theirs, key: str, conversions: Mapping[str, Conversion]) -> None:
    value = theirs.get(key)
    names = (key, key.rpartition(".")[2])
    meaning = next(filter(None, (meaning_of(name, theirs.source, theirs.has) for name in names)), None)
    if meaning is not None and meaning.by:
        value = conversions[meaning.by](theirs, key, value)
        if value is not OMIT and meaning.path:
            theirs.put(meaning.path, value, key)
    elif meaning is not None and meaning.path and not meaning.text:
        theirs.put(meaning.path, value, key)
    elif key not in theirs.written:
        return
    elif meaning is None:
        near = did_you_mean(names[1], {*known_settings(), *theirs.defaults})
        theirs.tell(key, f"unknown{near}", Harm.LEARNING)
    elif meaning.path:
        theirs.tell(key, f"`{meaning.path}` here: {meaning.text}", Harm.LEARNING)
    else:
        theirs.tell(key, meaning.text, meaning.harm)


def only(allowed: tuple[Any, ...], text: str, harm: Harm) -> Conversion:
    """Creates a conversion of a setting whose other values have no counterpart.

    Args:
        allowed: Values that hold here without a setting.
        text: Remark on other values.
        harm: Harm of the remark.
    """

    def check(theirs: Theirs, key: str, value: Any) -> Any:
        if value not in allowed:
            theirs.tell(key, text, harm)
        return OMIT

    return check
