"""Remarks on keys that a translation changed or left out, in order of harm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from rlrun.engine.messages.explain import Location


class Harm(IntEnum):
    """Effect on what is learned of leaving a key out, or of a change to it."""

    NONE = 0
    SLIGHT = 1
    LEARNING = 2


HEADINGS = {
    Harm.LEARNING: "Left out, although it changes what is learned:",
    Harm.SLIGHT: "Not quite as it was:",
    Harm.NONE: "Left out, without an effect on what is learned:",
}
"""Heading of the remarks of each harm."""


@dataclass(frozen=True)
class Remark:
    """Remark on one key of a translated file.

    Attributes:
        location: Location of the key in the file; that of an experiment for a default of the other library.
        key: The key as it is written, or the default's name.
        text: What has become of it, in a few words; "" if there is nothing to add.
        harm: Effect on what is learned.
    """

    location: Location
    key: str
    text: str
    harm: Harm


def in_order(remarks: Iterable[Remark]) -> list[Remark]:
    """Sorts remarks by harm, the greatest first; of equal remarks on a key the first one remains."""
    once = {(remark.location, remark.key): remark for remark in sorted(remarks, key=lambda each: each.harm)}
    return sorted(once.values(), key=lambda remark: -remark.harm)
