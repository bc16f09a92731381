"""One config of an entry: of its algorithm, of one of its policies, or of sampling in a world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlrun.algorithm_config import AlgorithmConfig
from rlrun.explain import Location
from rlrun.spec.expansion import Spaces


@dataclass(frozen=True)
class ConfigPart:
    """Settings as written, and the result of checking them.

    Attributes:
        location: Their location in the entry.
        algorithm: Name of the algorithm; "" for settings of sampling.
        model: Their config class.
        data: The settings as written.
        spaces: Their search spaces, by location in the entry.
        value: The typed settings, with the first value of every space; None if they are not valid.
    """

    location: Location
    algorithm: str
    model: type[AlgorithmConfig]
    data: Any
    spaces: Spaces
    value: AlgorithmConfig | None
