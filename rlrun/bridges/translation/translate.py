"""Translation of a complete file from another library, and its output as YAML with explanatory comments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlrun.bridges.translation.entry import RUN, Origin, TranslatedEntry, Untranslatable, nested
from rlrun.bridges.translation.meanings import HEADINGS, Impact, Remark, in_order
from rlrun.bridges.translation.rllib import translate_entry
from rlrun.bridges.translation.rllib_policies import entry_of_policy, own_settings, with_policies
from rlrun.bridges.translation.zoo import translate_zoo_entry, zoo_entry
from rlrun.engine.messages.explain import Location
from rlrun.engine.settings.commented_yaml import flow_yaml

LIBRARIES = {"rllib": "RLlib", "sb3": "rl-zoo3"}
"""Libraries by their names in the table."""

DEFAULTS = {"rllib": "RLlib", "sb3": "SB3"}
"""Libraries whose defaults apply to settings that a file omits: names by library."""

LineOf = Callable[[Location], int]
"""Type of a function that returns the line number of a location in a file."""

_ORDER = (
    "algorithm", "env", "policies", "mapping", "train", "seeds", "stop", "config", "evaluation", "checkpoint",
    "failure",
)  # fmt: skip


@dataclass(frozen=True)
class Translation:
    """Translation of a file from another library.

    Attributes:
        library: Name of the library as in `foreign_names.yaml`, such as `rllib`.
        entries: Translated experiments by their keys in the file.
        names: Names, by key in the file, of the experiments whose name differs from their key.
    """

    library: str
    entries: Mapping[str, TranslatedEntry]
    names: Mapping[str, str] = field(default_factory=dict)

    def data(self) -> dict[str, dict[str, Any]]:
        """Translated experiments in the form of an rlrun spec file."""
        return {self.name_of(key): nested(entry.values) for key, entry in self.entries.items()}

    def name_of(self, key: str) -> str:
        """Name of the experiment that has a given key in the file."""
        return self.names.get(key, key)

    def origins(self) -> dict[Location, Origin]:
        """Key in the original file from which each value was translated, by the value's location in `data()`."""
        return {
            (self.name_of(key), *path.split(".")): Origin((key, *origin.location), origin.key)
            for key, entry in self.entries.items()
            for path, origin in entry.origins.items()
        }

    def remarks(self) -> list[Remark]:
        """Remarks on all entries of the translation, sorted by impact; equal remarks are listed once."""
        found = [
            Remark((name, *remark.location), remark.key, remark.text, remark.impact)
            for name, entry in self.entries.items()
            for remark in entry.remarks
        ]
        return in_order(found)

    def changing_remarks(self) -> list[Remark]:
        """Remarks on keys that were omitted although they affect learning."""
        return [remark for remark in self.remarks() if remark.impact is Impact.LEARNING]

    def data_remarks(self) -> list[Remark]:
        """Remarks with the commands that convert recorded experience named in the file to data sets for rlrun."""
        return [remark for remark in self.remarks() if remark.key == "input" and remark.impact is Impact.SLIGHT]

    def read_as(self) -> str:
        """Library and versions for which the file is assumed to be written, such as "RLlib 1.13"."""
        versions = sorted({".".join(map(str, entry.source.version)) for entry in self.entries.values()})
        return f"{LIBRARIES[self.library]} {' and '.join(versions)}"

    def summary(self) -> str:
        """One-line summary of the translation: library, versions, and the number of keys not translated exactly."""
        count = len({remark.key for remark in self.remarks() if remark.impact is Impact.SLIGHT})
        changes = (
            f"{count} setting{'s have' if count > 1 else ' has'} no exact equivalent in rlrun"
            if count
            else "all settings have exact equivalents in rlrun"
        )
        return f"read as {self.read_as()}; {changes}"


def translate_rllib(
    data: Mapping[str, Any], version: tuple[int, ...] | None = None, env: str | None = None
) -> Translation:
    """Translates the experiments of an RLlib file.

    Args:
        data: Experiments by name.
        version: RLlib version; None to infer it from the keys.
        env: Env to use instead of those in the file, for example if the original was registered in code.

    Raises:
        Untranslatable: An experiment cannot be translated; the location begins with its name.
    """
    entries = {}
    for name, entry in data.items():
        try:
            named = entry if env is None else {**entry, "env": env}
            entries[name] = _translate_experiment(named, version)
        except Untranslatable as refusal:
            raise Untranslatable((name, *refusal.location), str(refusal)) from None
    return Translation("rllib", entries)


def _translate_experiment(entry: Mapping[str, Any], version: tuple[int, ...] | None) -> TranslatedEntry:
    """Translates an RLlib experiment: once, and again with the settings of each policy that has any."""
    translated = translate_entry(entry, version)
    if not translated.policies:
        return translated
    known = translated.source.version
    by_policy = {
        policy: (own, translate_entry(entry_of_policy(entry, own), known))
        for policy, own in own_settings(entry["config"]).items()
        if own.settings
    }
    return with_policies(translated, by_policy)


def translate_zoo(data: Any, algorithm: str, env: str) -> Translation:
    """Translates the settings of one env in an rl-zoo3 file.

    Args:
        data: Settings by env id.
        algorithm: Name of the algorithm, given by the file's name.
        env: Id of the env.

    Raises:
        Untranslatable: There are no settings for the env, or they cannot be translated.
    """
    key = zoo_entry(data, env)
    try:
        entry = translate_zoo_entry(data[key], key, algorithm, env)
    except Untranslatable as refusal:
        raise Untranslatable((key, *refusal.location), str(refusal)) from None
    name = re.sub(r"[^a-z0-9.]+", "-", f"{env}-{algorithm}".lower()).strip("-.")
    return Translation("sb3", {key: entry}, {key: name})


def text_of(translation: Translation, file: str, line_of: LineOf) -> str:
    """Formats a translation as YAML, with remarks as comments.

    Args:
        translation: The translation.
        file: Name of the file that was translated.
        line_of: Function that returns the line of a location in that file.
    """
    lines = [f"# Translated from {file}, read as {translation.read_as()}."]
    lines += _remark_lines(translation, line_of)
    for key, entry in translation.entries.items():
        name = translation.name_of(key)
        if "stop" not in nested(entry.values):
            lines.append(f"# {name} has no stop: set when a trial ends, such as stop: {{env_steps: 1_000_000}}")
        lines += _entry_lines(name, entry, _Comments(key, entry, DEFAULTS[translation.library], line_of))
    return "\n".join(lines) + "\n"


def _remark_lines(translation: Translation, line_of: LineOf) -> Iterator[str]:
    """Yields the remarks, each once with all its lines, under a heading for each impact."""
    lines: dict[tuple[Impact, str, str], list[int]] = {}
    for remark in translation.remarks():
        lines.setdefault((remark.impact, remark.key, remark.text), []).append(line_of(remark.location))
    impact: Impact | None = None
    for (now, key, text), found in lines.items():
        if now is not impact:
            yield f"# {HEADINGS[now]}"
            impact = now
        places = ", ".join(map(str, sorted(set(found))))
        yield f"#   line{'s' * (len(set(found)) > 1)} {places}: {key}" + (f": {text}" if text else "")


def _entry_lines(name: str, entry: TranslatedEntry, comments: _Comments) -> Iterator[str]:
    yield f"{name}:"
    data = nested(entry.values)
    for key in [key for key in _ORDER if key in data]:
        yield from _value_lines(key, data[key], key, 1, comments)


@dataclass(frozen=True)
class _Comments:
    """Comments on the origins of values."""

    key: str
    entry: TranslatedEntry
    title: str
    line_of: LineOf

    def of(self, path: str) -> str:
        """Comment on a value's origin, "" without one."""
        origin = self.entry.origins.get(path)
        if origin is None:
            return ""
        if origin.location == RUN and origin.key and path != "algorithm":
            return f"  # {self.title}'s default of {origin.key}"
        where = f"  # line {self.line_of((self.key, *origin.location))}"
        key = origin.key or str((self.key, *origin.location)[-1])
        return where if path.rpartition(".")[2] == key.rpartition(".")[2] else f"{where}: {key}"


def _value_lines(key: str, value: Any, path: str, depth: int, comments: _Comments) -> Iterator[str]:
    indent = "  " * depth
    below = [known for known in comments.entry.values if known.startswith(f"{path}.")]
    if isinstance(value, Mapping) and below:
        yield f"{indent}{flow_yaml(key)}:"
        for name, item in value.items():
            yield from _value_lines(name, item, f"{path}.{name}", depth + 1, comments)
        return
    yield f"{indent}{flow_yaml(key)}: {flow_yaml(value)}{comments.of(path)}"
