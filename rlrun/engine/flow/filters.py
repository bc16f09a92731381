"""Running mean and variance of a policy's observation and return filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlrun.engine.functional.moments import Moments


class Filters:
    """Running moments by name: `observations/<part>` for the observation filter, `returns` for reward scaling.

    Attributes:
        moments: The moments of all data so far, by name.
        is_frozen: Whether the moments of observations stay as they are, in a later stage of an experiment.
    """

    def __init__(self) -> None:
        self.moments: dict[str, Moments] = {}
        self.is_frozen = False

    def merge(self, deltas: Mapping[str, Moments]) -> None:
        """Merges moments newly collected by workers into the running moments."""
        for name, delta in deltas.items():
            if self.is_frozen and name.startswith("observations/"):
                continue
            self.moments[name] = self.moments[name].merged(delta) if name in self.moments else delta

    def state(self) -> dict[str, Any]:
        """Returns the running moments for checkpoints."""
        return {name: moments.state() for name, moments in self.moments.items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the running moments from `state()`."""
        self.moments = {name: Moments.from_state(moments) for name, moments in state.items()}
