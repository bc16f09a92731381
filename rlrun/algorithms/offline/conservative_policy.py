"""Policies of conservative Q-learning in a bounded Box: SAC's, with action samples for the regulariser (torch)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.actor_q.soft_policy import SoftPolicy
from rlrun.algorithms.offline.conservative_networks import SAMPLES, UNIFORM, ConservativeNetworks
from rlrun.algorithms.offline.greedy_policy import GreedyPolicy
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError

if TYPE_CHECKING:
    from rlrun.algorithms.offline.cql import CQLConfig


class ConservativePolicy(SoftPolicy):
    """Policy of a tanh-Gaussian actor in a bounded Box, with Q functions, for conservative Q-learning.

    Args:
        spaces: Observation and action space.
        config: Settings.
        seed: Seed of the initial parameters.

    Raises:
        UsageError: If the action space is not a Box with finite bounds.
    """

    config: CQLConfig

    def __init__(self, spaces: Spaces, config: CQLConfig, seed: int) -> None:
        super().__init__(spaces, config, seed)
        self._soft = ConservativeNetworks

    @override
    def draws(self, generator: np.random.Generator, rows: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Samples the noise of SAC, and the uniform actions and the noise of the regulariser."""
        number = self.config.num_sampled_actions
        uniform = generator.uniform(-1.0, 1.0, (rows, length, number, self.num_normal)).astype(np.float32)
        noise = generator.standard_normal((rows, length, 2 * number, self.num_normal), np.float32)
        return super().draws(generator, rows, length) | {UNIFORM: uniform, SAMPLES: noise}


def conservative_policy(spaces: Spaces, config: CQLConfig, seed: int) -> ConservativePolicy | GreedyPolicy:
    """Creates a policy of conservative Q-learning: critics only for Discrete actions, else critics with an actor.

    Raises:
        UsageError: If actions are neither a Box with finite bounds nor Discrete, or calibration is set for Discrete
            actions.
    """
    if isinstance(spaces.action, gymnasium.spaces.Discrete):
        if config.calibrated:
            raise UsageError("config.calibrated: values of an actor's actions are calibrated; Discrete ones have none")
        return GreedyPolicy(spaces, config, seed)
    return ConservativePolicy(spaces, config, seed)
