"""The env of the README, as a user would write it, and its bare steps, which are the floor of this benchmark."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from benchmarks.peers import Measurement, answer, between, mark


class Tank(gymnasium.Env[NDArray[np.float32], np.int64]):  # type: ignore[misc]
    """A tank whose level, relative to a mark, should stay near 0; the agent drains and fills it while rain falls."""

    observation_space = gymnasium.spaces.Box(-10, 10, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Draws the initial level."""
        super().reset(seed=seed)
        self.level = self.np_random.uniform(-8, 8, 1)
        return np.float32(self.level), {}  # type: ignore[return-value]

    @override
    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Drains, waits or fills."""
        rain = self.np_random.normal(0, 0.3)
        self.level = np.clip(self.level + action - 1 + rain, -10, 10)
        return np.float32(self.level), -abs(self.level.item()), False, False, {}  # type: ignore[return-value]


gymnasium.register("Tank-v0", f"{__name__}:Tank", max_episode_steps=50)


def measured(work: Measurement) -> Measurement:
    """Steps bare envs in turn, and resets each of them after 50 steps."""
    envs = [Tank() for _ in range(work["num_envs"])]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
    steps = work["fragment"] * work["iterations"]
    began = mark(env_steps=0)
    for t in range(steps):
        for env in envs:
            env.step(np.int64(t % 3))
            if t % 50 == 49:
                env.reset()
    return between(began, mark(env_steps=steps * len(envs)))


if __name__ == "__main__":
    answer(measured)
