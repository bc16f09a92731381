"""Pendulum from pixels: partially observed, without velocities."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

LENGTH = 0.8
"""Length of the rod, in units of half the image's side."""

HALF_WIDTH = 0.1
"""Half the width of the rod, in units of half the image's side."""


class PendulumImages(gymnasium.ObservationWrapper[NDArray[np.uint8], Any, NDArray[np.float32]]):  # type: ignore[misc]
    """Observation wrapper: Pendulum as grayscale images [size, size, 1].

    Images are drawn in 50 us, without a window; the upright pendulum points up.

    Args:
        env: Pendulum env.
        size: Side length of the images in pixels.
    """

    def __init__(self, env: gymnasium.Env[NDArray[np.float32], Any], size: int = 64) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(0, 255, (size, size, 1), np.uint8)
        places = (np.arange(size, dtype=np.float32) + 0.5) * (2 / size) - 1
        self._right, self._up = places[None, :], -places[:, None]
        self._pixel = 2 / size

    def observation(self, observation: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Renders an observation (cosine, sine, angular velocity) as an image of the angle."""
        cosine, sine = float(observation[0]), float(observation[1])
        # Angles count from upright, counterclockwise. Distances are those to the rod, a segment from the middle on.
        along = np.clip(self._up * cosine - self._right * sine, 0, LENGTH)
        distance = np.hypot(self._right + along * sine, self._up - along * cosine)
        shade = np.clip((HALF_WIDTH - distance) / self._pixel + 0.5, 0, 1)
        return (255 * shade).astype(np.uint8)[..., None]
