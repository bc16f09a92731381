"""A custom env: a small simulator of a room in winter."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

QUARTERS_PER_DAY = 96
COMFORT = 21.0  # degrees Celsius


class Room(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):  # type: ignore[misc]  # gymnasium is not type-checked
    """A room to be kept at 21 degrees through a winter's day, with little heat.

    An observation holds the distance from 21 degrees and the temperature outside, both
    in tens of degrees, and the time of day as a point on a circle. The action is the
    share of its power that the heater uses in the next quarter of an hour. The reward
    is minus the degrees away from 21 and minus the price of the heat. A day is
    truncated, and never terminates.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own way to declare it)

    def __init__(
        self,
        loss_per_hour: float = 0.2,
        degrees_per_hour: float = 8.0,
        price: float = 0.2,
    ) -> None:
        """Builds the room.

        Args:
            loss_per_hour: Share of the difference to the outside lost in an hour.
            degrees_per_hour: What the heater adds in an hour at full power.
            price: Reward lost in a quarter of an hour at full power.
        """
        self.observation_space = gymnasium.spaces.Box(-10.0, 10.0, (4,), np.float32)
        self.action_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
        self._loss_per_hour = loss_per_hour
        self._degrees_per_hour = degrees_per_hour
        self._price = price
        self._quarter = 0
        self._inside = COMFORT
        self._night = 0.0
        self._comfortable = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begins a day, with temperatures of the room and the night from the seed."""
        super().reset(seed=seed)
        self._quarter = 0
        self._inside = float(self.np_random.uniform(12.0, 24.0))
        self._night = float(self.np_random.uniform(-10.0, 5.0))
        self._comfortable = 0
        return self._observation(), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Heats for a quarter of an hour; the day's last info has the hours near 21."""
        power = min(max(float(action[0]), 0.0), 1.0)
        lost = self._loss_per_hour * (self._inside - self._outside())
        self._inside += (self._degrees_per_hour * power - lost) / 4
        self._comfortable += abs(self._inside - COMFORT) < 1.0
        self._quarter += 1
        is_over = self._quarter == QUARTERS_PER_DAY
        reward = -abs(self._inside - COMFORT) - self._price * power
        return (
            self._observation(),
            reward,
            False,
            is_over,
            {"comfortable_hours": self._comfortable / 4} if is_over else {},
        )

    def _outside(self) -> float:
        """Temperature outside: five degrees warmer than the night at noon."""
        return self._night + 2.5 * (1 - math.cos(self._hour_angle()))

    def _hour_angle(self) -> float:
        return 2 * math.pi * self._quarter / QUARTERS_PER_DAY

    def _observation(self) -> NDArray[np.float32]:
        angle = self._hour_angle()
        return np.array(
            [
                (self._inside - COMFORT) / 10,
                self._outside() / 10,
                math.cos(angle),
                math.sin(angle),
            ],
            np.float32,
        )
