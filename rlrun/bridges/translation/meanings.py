"""Counterparts in rlrun of other libraries' settings, by library, version and algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any

from rlrun.engine.messages.explain import Location
from rlrun.engine.messages.foreign_names import table


class Impact(IntEnum):
    """How strongly it affects learning that a translation omits or changes a key."""

    NONE = 0
    SLIGHT = 1
    LEARNING = 2


HEADINGS = {
    Impact.LEARNING: "Left out although it affects learning:",
    Impact.SLIGHT: "Not exactly the same:",
    Impact.NONE: "Left out without an effect on learning:",
}
"""Heading of the remarks with the same impact."""


@dataclass(frozen=True)
class Remark:
    """Remark on one key of a translated file.

    Attributes:
        location: Location of the key in the file; for a default of the other library, location of the experiment.
        key: The key as written in the file, or the name of the default.
        text: Short description of the change; "" if there is nothing to add.
        impact: Impact on learning.
    """

    location: Location
    key: str
    text: str
    impact: Impact


def in_order(remarks: Iterable[Remark]) -> list[Remark]:
    """Sorts remarks by impact, greatest first, and drops duplicates on the same key."""
    once = {(remark.location, remark.key): remark for remark in sorted(remarks, key=lambda each: each.impact)}
    return sorted(once.values(), key=lambda remark: -remark.impact)


Has = Callable[[str], bool]
"""Type of a predicate: whether a config has a setting with a dotted name."""


@dataclass(frozen=True)
class SettingOrigin:
    """Origin of a setting: library, version and algorithm of the file that holds it.

    Attributes:
        library: Name of the library in the table: `rllib`, `sb3`.
        version: Version of the library, such as (1, 13).
        algorithm: The library's name for the algorithm.
    """

    library: str
    version: tuple[int, ...]
    algorithm: str


@dataclass(frozen=True)
class Meaning:
    """Row of the translation table: the counterpart in rlrun of another library's setting.

    Attributes:
        path: Dotted path of the counterpart in an entry; "" if there is none.
        text: Description of the value's conversion, or of the alternative if there is no counterpart.
        by: Name of the conversion function; "" for none.
        impact: Effect on learning if the setting is left out.
        needs: Setting that the config must have for this row to apply; "" for none.
        library: Library to which the row applies; "" for all.
        algorithms: Names, in that library, of the algorithms to which the row applies; empty for all.
    """

    path: str
    text: str = ""
    by: str = ""
    impact: Impact = Impact.NONE
    needs: str = ""
    library: str = ""
    algorithms: tuple[str, ...] = ()

    def applies(self, source: SettingOrigin, has: Has) -> bool:
        """Whether this row of the translation table applies to a setting of a library and algorithm.

        The row may also require that rlrun's config has a certain setting (`needs`).
        """
        is_covered = self.library in ("", source.library) and source.algorithm in (
            self.algorithms or (source.algorithm,)
        )
        setting = self.path.removeprefix("config.")
        is_there = setting == self.path or has(setting)  # keys outside `config` always exist
        return is_covered and is_there and (not self.needs or has(self.needs))


def meaning_of(name: str, source: SettingOrigin, has: Has) -> Meaning | None:
    """Finds the counterpart of another library's setting: from the table, else rlrun's setting of that name, else None.

    Args:
        name: Name of the setting in the other library.
        source: Library, version and algorithm of the file.
        has: Predicate "the config of rlrun's algorithm has this setting".
    """
    rows = (*_rows("converted").get(name, ()), *_rows("settings").get(name, ()))
    found = next((row for row in rows if row.applies(source, has)), None)
    return found or (Meaning(f"config.{name}") if has(name) else None)


def known_settings() -> frozenset[str]:
    """Names of all settings of other libraries that the translation table lists."""
    return frozenset({*_rows("converted"), *_rows("settings")})


@cache
def _rows(section: str) -> Mapping[str, tuple[Meaning, ...]]:
    return {
        name: tuple(map(_row, written if isinstance(written, list) else [written]))
        for name, written in table()[section].items()
    }


def _row(written: str | Mapping[str, Any]) -> Meaning:
    if isinstance(written, str):
        return Meaning(f"config.{written}")
    setting = f"config.{written['name']}" if "name" in written else ""
    return Meaning(
        path=written.get("experiment", setting),
        text=written.get("none", written.get("conversion", "")),
        by=written.get("by", ""),
        impact=Impact[written.get("impact", "none").upper()],
        needs=written.get("needs", ""),
        library=written.get("library", ""),
        algorithms=tuple(written.get("of", ())),
    )
