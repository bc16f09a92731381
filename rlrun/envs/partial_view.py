"""A wrapper that hides some of the numbers that an env shows, so that a policy has to remember."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray


class PartialView(gymnasium.ObservationWrapper[NDArray[Any], Any, NDArray[Any]]):  # type: ignore[misc]
    """Shows only some numbers of an observation that is a vector: ``{id: ..., kwargs: {numbers: [0, 2]}}``.

    CartPole-v1 with `numbers: [0, 2]` shows where the cart and the pole are and not how they move.

    Raises:
        ValueError: If its observations are no vectors, or have no such number.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], numbers: Sequence[int]) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
            raise ValueError(f"PartialView shows some numbers of a vector; {space} is none")
        if not numbers or min(numbers) < 0 or max(numbers) >= space.shape[0]:
            raise ValueError(f"PartialView: an observation has the numbers 0 to {space.shape[0] - 1}, not {numbers}")
        self._numbers = np.array(numbers)
        self.observation_space = gymnasium.spaces.Box(
            space.low[self._numbers], space.high[self._numbers], dtype=space.dtype
        )

    def observation(self, observation: NDArray[Any]) -> NDArray[Any]:
        """Returns the numbers that are shown."""
        shown: NDArray[Any] = observation[self._numbers]
        return shown
