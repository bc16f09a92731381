"""The policy that everything is compared with: it looks at nothing and takes any action."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.envs.random_actions import RandomActions
from rlrun.envs.spaces import Spaces


class RandomPolicy:
    """Takes actions each as likely as any other that is allowed.

    Args:
        spaces: Observation and action space.
        seed: Seed of the draws.
    """

    def __init__(self, spaces: Spaces, seed: int = 0) -> None:
        self._actions = RandomActions(spaces, seed)

    def begin_episodes(self, starts: NDArray[np.bool_]) -> None:
        """Remembers nothing that an episode's start would end."""

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Looks at no rewards."""

    def actions(
        self, observations: Any, generator: np.random.Generator | None, acts: NDArray[np.bool_] | None = None
    ) -> Any:
        """Returns actions for the env, [B, ...]; the generator is not asked, nor which slots act."""
        return self._actions.draw(observations)
