"""What population-based training tells a trial between two of its iterations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlrun.spec.experiment import TrialSpec

GENERATION = "generation"
"""Key in a checkpoint's manifest: the last orders that had been carried out when it was written."""


@dataclass(frozen=True)
class TrialOrders:
    """How a trial goes on from a generation of its population.

    Attributes:
        generation: Number of the generation, from 1; orders of one generation are carried out once, also if they are
            given again after a kill.
        trial: The trial with the settings it has from now on.
        parent: The checkpoint of the trial whose weights it takes over, None to keep its own.
    """

    generation: int
    trial: TrialSpec
    parent: Path | None

    def to_data(self) -> dict[str, Any]:
        """Returns plain data from which `from_data` makes equal orders."""
        parent = None if self.parent is None else str(self.parent)
        return {"generation": self.generation, "trial": self.trial.to_data(), "parent": parent}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> TrialOrders:
        """Makes orders from what `to_data` returned."""
        parent = None if data["parent"] is None else Path(data["parent"])
        return cls(int(data["generation"]), TrialSpec.from_data(data["trial"]), parent)
