"""Settings of an entry at one place: of its algorithm, of one of its policies, or of sampling in a world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlrun.algorithm_config import SamplingSettings
from rlrun.explain import Location
from rlrun.spec.expansion import Spaces


@dataclass(frozen=True)
class ConfigPart:
    """Settings as they were written, and what came of checking them.

    Attributes:
        location: Where they stand in the entry.
        algorithm: Name of the algorithm; "" of settings that are no algorithm's.
        model: Their config class.
        data: What is written.
        spaces: The search spaces, by location in the entry.
        value: The typed settings, with the first value of every space; None if anything is wrong with them.
    """

    location: Location
    algorithm: str
    model: type[SamplingSettings]
    data: Any
    spaces: Spaces
    value: SamplingSettings | None
