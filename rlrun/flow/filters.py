"""The running moments of a policy, which go out with its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlrun.functional.moments import Moments


class Filters:
    """Running moments by name: `observations/<part>` for the observation filter, `returns` for reward scaling.

    Attributes:
        moments: The moments of everything seen so far, by name.
    """

    def __init__(self) -> None:
        self.moments: dict[str, Moments] = {}

    def merge(self, deltas: Mapping[str, Moments]) -> None:
        """Adds what workers have seen since the last time."""
        for name, delta in deltas.items():
            self.moments[name] = self.moments[name].merged(delta) if name in self.moments else delta

    def state(self) -> dict[str, Any]:
        """Returns the moments as a checkpoint keeps them."""
        return {name: moments.state() for name, moments in self.moments.items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Loads what `state` returned."""
        self.moments = {name: Moments.from_state(moments) for name, moments in state.items()}
