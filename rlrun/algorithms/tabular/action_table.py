"""Acting by lookup in a table of Q values (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.nn.acting import Floats, Heads


class ActionTable:
    """Network for action selection that looks up the action values of Discrete states in a table.

    Args:
        states: Number of states, S.
        actions: Number of actions, A.
        start: Smallest observation of the Discrete space.
    """

    state_size = 0

    def __init__(self, states: int, actions: int, start: int) -> None:
        self.start = start
        self._table: Floats = np.zeros((states, actions), np.float32)

    def load(self, flat: Floats) -> None:
        """Loads the Q table from a flat vector of num_states * num_actions numbers."""
        self._table = flat.reshape(self._table.shape)

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Looks up the action values of states [B], as the head `outputs` [B, A]."""
        return {"outputs": self._table[inputs["obs"] - self.start]}, None
