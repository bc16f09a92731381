"""Translation of other RL libraries' keys in a spec entry to rlrun's keys, so that all mistakes are reported at once.

An entry with such keys is always invalid. The values are still validated as if rlrun's keys had been used, and mistakes
are reported at their position in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from rlrun.engine.messages.errors import did_you_mean
from rlrun.engine.messages.explain import Location, Mistake, annotation_at
from rlrun.engine.messages.foreign_names import Counterpart, entry_key_for, is_foreign, setting_for
from rlrun.engine.settings.config import ConfigModel, config_in
from rlrun.experiments.spec.expansion import filled, has_value_at, value_at
from rlrun.experiments.spec.keys import LEARNING_KEYS


@dataclass(frozen=True)
class ForeignKey:
    """Key of another RL library, or a misspelled key, with the corresponding key of rlrun.

    Attributes:
        written: Location of the key in the entry.
        ours: Location of the corresponding key of rlrun.
        converts: Whether the value needs a conversion, and therefore cannot be validated as written.
    """

    written: Location
    ours: Location
    converts: bool = False

    def as_written(self, mistake: Mistake) -> Mistake:
        """Relocates a mistake from rlrun's key to this key, where the user wrote the value."""
        if self.converts or mistake.location[: len(self.ours)] != self.ours:
            return mistake
        return replace(mistake, location=(*self.written, *mistake.location[len(self.ours) :]))


def with_rlrun_keys(entry: Mapping[str, Any], keys: Sequence[ForeignKey]) -> Mapping[str, Any]:
    """Copies a spec entry with foreign keys renamed to rlrun's, leaving out values that need a conversion."""
    if not keys:
        return entry
    result: dict[str, Any] = deepcopy(dict(entry))
    for key in keys:
        value = value_at(result, key.written[:-1]).pop(key.written[-1])
        if not key.converts:
            result = filled(result, {key.ours: value})
    return result


def in_one_round(mistakes: Sequence[Mistake], further: Sequence[Mistake], keys: Sequence[ForeignKey]) -> list[Mistake]:
    """Merges the mistakes of a spec entry with those of its copy, in which other libraries' keys are renamed.

    A key is not reported as missing if the entry has another library's key for it.

    Args:
        mistakes: Mistakes of the entry.
        further: Mistakes of the copy, in which other libraries' keys are renamed to rlrun's.
        keys: The keys of other libraries.
    """
    all_keys, converted = {key.ours for key in keys}, {key.ours for key in keys if key.converts}
    found = [mistake for mistake in mistakes if mistake.location not in all_keys]
    found += as_written([mistake for mistake in further if mistake.location not in converted], keys)
    return list(dict.fromkeys(found))


def as_written(mistakes: Iterable[Mistake], keys: Sequence[ForeignKey]) -> list[Mistake]:
    """Relocates mistakes from rlrun's keys to the other libraries' keys as written in the entry."""
    return [reduce(lambda moved, key: key.as_written(moved), keys, mistake) for mistake in mistakes]


def foreign_entry_keys(entry: Mapping[str, Any], known: Iterable[str], needed: Iterable[str]) -> list[ForeignKey]:
    """Finds misspelled keys and other libraries' keys in a spec entry, such as `run` if `algorithm` is missing.

    Args:
        entry: The entry.
        known: Valid keys of a spec entry.
        needed: Required keys, whose misspellings are also found.
    """
    known, needed = list(known), list(needed)
    found: list[ForeignKey] = []
    for key in [str(key) for key in entry if key not in known]:
        hint = "" if is_foreign(key) else did_you_mean(key, known)
        misspelt = next((name for name in needed if f"'{name}'" in hint), "")
        ours = tuple((entry_key_for(key) or misspelt).split("."))
        if ours != ("",) and _is_free(entry, ours, found):
            found.append(ForeignKey((key,), ours))
    return found


def foreign_keys(entry: Mapping[str, Any], models: Mapping[Location, type[ConfigModel]]) -> list[ForeignKey]:
    """Finds other libraries' keys in the settings of a spec entry that lacks the corresponding keys of rlrun.

    Args:
        entry: The entry.
        models: Config classes by location in the entry.
    """
    found: list[ForeignKey] = []
    for location, model in models.items():
        data = value_at(entry, location) if has_value_at(entry, location) else None
        if not location:
            data = {key: value for key, value in entry.items() if key not in LEARNING_KEYS}
        whole = location or ("config",)
        for key in _keys_below(data, model, location, (models.get(whole, model), whole)):
            if _is_free(entry, key.ours, found):
                found.append(key)
    return found


def _keys_below(
    data: Any, model: type[ConfigModel], location: Location, whole: tuple[type[ConfigModel], Location]
) -> Iterator[ForeignKey]:
    """Yields the other libraries' keys in a config and its nested sections.

    Args:
        data: The settings as written.
        model: Class of the config.
        location: Location of the config in the entry.
        whole: Class and location of the top-level config, if `data` is a nested section of it.
    """
    for key, value in data.items() if isinstance(data, Mapping) else ():
        if key in model.model_fields:
            below = config_in(annotation_at(model, (key,)))
            if below is not None:
                yield from _keys_below(value, below, (*location, key), whole)
            continue
        if model.model_config.get("extra") == "allow":  # its keys are metric names
            continue
        for holder, place in ((model, location), whole):
            ours = setting_for(str(key), holder.has_setting)
            if ours is not None:
                yield _key((*location, key), ours, place)
                break


def _key(written: Location, ours: Counterpart, place: Location) -> ForeignKey:
    steps = tuple(ours.name.split("."))
    return ForeignKey(written, steps if ours.of_experiment else (*place, *steps), converts=bool(ours.conversion))


def _is_free(entry: Mapping[str, Any], location: Location, taken: Iterable[ForeignKey]) -> bool:
    """Whether a location has no value and no translated key, and all enclosing values are mappings."""
    if any(location[: len(key.ours)] == key.ours[: len(location)] for key in taken):
        return False
    value: Any = entry
    for step in location[:-1]:
        value = value.get(step, {})
        if not isinstance(value, Mapping):
            return False
    return location[-1] not in value


def names_runs(data: Any) -> bool:
    """Whether a document maps names to entries with a key `run`, as RLlib's experiment files do."""
    return (
        isinstance(data, Mapping)
        and all(isinstance(entry, Mapping) for entry in data.values())
        and any("run" in entry for entry in data.values())
    )
