"""Comparison of two entries of spec files, setting by setting, with defaults filled in.

The entries are plain data. Code that they name is not imported, except algorithms that are installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.messages.explain import Location, dotted
from rlrun.engine.settings.commented_yaml import flow_yaml
from rlrun.engine.settings.config import ConfigModel
from rlrun.engine.settings.registry import algorithm_class, is_installed_algorithm
from rlrun.experiments.spec.expansion import fill, filled
from rlrun.experiments.spec.experiment import RunSettings
from rlrun.experiments.spec.search_space import find_spaces, is_search_space

_OF_TRIALS_ALONE = (
    *("name", "index", "experiment", "params", "configuration", "population"),
    *("trials_sharing_update", "update_executor"),
)
"""Keys of a trial's entry that are not settings."""

_Flat = dict[Location, Any]


@dataclass(frozen=True)
class Setting:
    """Value of a setting in one of two compared spec entries.

    Attributes:
        value: The value of the setting, or its search space.
        is_default: Whether the value is the default.
    """

    value: Any
    is_default: bool

    @override
    def __str__(self) -> str:
        value = self.value
        shown = int(value) if isinstance(value, float) and value.is_integer() else value  # bounds in stop are floats
        return f"{flow_yaml(shown)}{' (default)' if self.is_default else ''}"


@dataclass(frozen=True)
class Difference:
    """Setting that differs between two compared spec entries.

    Attributes:
        location: Location of the setting in an entry.
        first: Value in the first entry; None if the entry has no such setting.
        second: Value in the second entry; None if the entry has no such setting.
    """

    location: Location
    first: Setting | None
    second: Setting | None

    @property
    def setting(self) -> str:
        """Dotted path of the setting."""
        return dotted(self.location)


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    """Finds the settings in which two spec entries differ, by path.

    Args:
        first: An entry of a spec file or run, or a trial's resolved spec.
        second: Another entry or resolved spec.

    Examples:
        >>> found = differences({"stop": {"env_steps": 9}}, {"stop": {"env_steps": 9}, "seeds": [0, 1]})
        >>> [(one.setting, one.first, one.second) for one in found]
        [('seeds', Setting(value=[0], is_default=True), Setting(value=[0, 1], is_default=False))]
    """
    (values, usual), (others, other_usual) = _resolved(first), _resolved(second)
    found = []
    for place in dict.fromkeys([*values, *others]):
        if _same(values, others, place):
            continue
        pair = (_setting(values, usual, place), _setting(others, other_usual, place))
        found.append(Difference(place, *pair))
    return found


def entry_of_trial(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a trial's resolved spec to a spec entry with one seed.

    Args:
        spec: Content of the trial's spec.yaml.
    """
    entry = {key: value for key, value in spec.items() if key not in (*_OF_TRIALS_ALONE, "seed", "max_restarts")}
    return {**entry, "seeds": [spec["seed"]], "failure": {"max_restarts": spec.get("max_restarts", 0)}}


def _resolved(entry: Mapping[str, Any]) -> tuple[_Flat, _Flat]:
    """Values of all settings of an entry, and their defaults."""
    entry = {key: value for key, value in entry.items() if value is not None}
    if isinstance(entry.get("env"), str):
        entry["env"] = {"id": entry["env"]}
    usual: dict[str, Any] = {**_defaults(RunSettings), "env": _defaults(EnvConfig)}
    if not entry.get("policies"):
        entry["config"], usual["config"] = _resolved_config(entry.get("algorithm"), entry.get("config") or {})
    for name, policy in (entry.get("policies") or {}).items():
        config, default = _resolved_config(policy.get("algorithm"), policy.get("config") or {})
        entry["policies"] = {**entry["policies"], name: {**policy, "config": config}}
        usual.setdefault("policies", {})[name] = {"config": default}
    values, defaults = dict(_flat(entry)), dict(_flat(usual))
    missing = {place: value for place, value in defaults.items() if not _has_other_form(place, values)}
    return {**missing, **values}, defaults


def _resolved_config(algorithm: Any, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of an algorithm with defaults filled in, and the defaults; as written if it is not installed."""
    if not isinstance(algorithm, str) or not is_installed_algorithm(algorithm):
        return dict(config), {}
    model: type[ConfigModel] = algorithm_class(algorithm).Config
    spaces = find_spaces(config)[0]
    first = {place: next(value for _, value in space.probes()) for place, space in spaces.items()}
    try:
        resolved = model.parse(fill(config, first)).to_data()
    except SpecError:  # another version wrote the spec, or it has values that are measured before the run
        return dict(config), _defaults(model)
    return filled(resolved, {place: space.to_data() for place, space in spaces.items()}), _defaults(model)


def _defaults(model: type[ConfigModel]) -> dict[str, Any]:
    """Default values of a config class, without the settings that must be given."""
    given = {name for name, field in model.model_fields.items() if not field.is_required()}
    return model.model_construct().model_dump(mode="json", include=given, warnings=False)


def _flat(data: Any, place: Location = ()) -> Iterator[tuple[Location, Any]]:
    """Yields the leaves of nested mappings with their places; a search space is a leaf."""
    if isinstance(data, Mapping) and data and not (place and is_search_space(data)):
        for key, value in data.items():
            yield from _flat(value, (*place, key))
    else:
        yield place, list(data) if isinstance(data, tuple) else data


def _has_other_form(place: Location, values: _Flat) -> bool:
    """Whether a section is given as a whole, or a single value as a section."""
    above = any(place[:length] in values for length in range(1, len(place)))
    return above or any(other[: len(place)] == place for other in values)


def _same(values: _Flat, others: _Flat, place: Location) -> bool:
    """Whether two entries agree at a place; an empty section is the same as none."""
    empty: tuple[Any, ...] = (None, {}, [])
    value, other = values.get(place), others.get(place)
    return value == other or (value in empty and other in empty)


def _setting(values: _Flat, usual: _Flat, place: Location) -> Setting | None:
    if place not in values:
        return None
    return Setting(values[place], place in usual and usual[place] == values[place])
