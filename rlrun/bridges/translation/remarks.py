"""Remarks on keys that a translation changed or omitted, sorted by impact."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from rlrun.engine.messages.explain import Location


class Impact(IntEnum):
    """Impact on learning of omitting or changing a key in a translation."""

    NONE = 0
    SLIGHT = 1
    LEARNING = 2


HEADINGS = {
    Impact.LEARNING: "Left out, although it changes what is learned:",
    Impact.SLIGHT: "Not quite as it was:",
    Impact.NONE: "Left out, without an effect on what is learned:",
}
"""Heading of the remarks with the same impact."""


@dataclass(frozen=True)
class Remark:
    """Remark on one key of a translated file.

    Attributes:
        location: Location of the key in the file; for a default of the other library, that of the experiment.
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
