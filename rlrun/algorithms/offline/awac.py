"""AWAC: advantage-weighted actor-critic."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from rlrun.algorithms.offline.weighted_regression import WeightedRegression, WeightedRegressionConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.settings.config import PositiveInt

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.offline.regressed_networks import RegressedNetworks


class AWACConfig(WeightedRegressionConfig):
    """Settings of AWAC (Nair et al., arXiv:2006.09359)."""

    num_sampled_actions: PositiveInt = 1
    """Number of the actor's actions whose values estimate the state value; Discrete actions need none."""

    @property
    @override
    def num_noises(self) -> int:
        return self.num_sampled_actions


class AWAC(WeightedRegression):
    """Advantage-weighted actor-critic: the actor imitates recorded actions, weighted by their advantages.

    Actions are a bounded Box, or Discrete, with exact sums over the actions (arXiv:2006.09359).
    """

    Config: ClassVar[type[AWACConfig]] = AWACConfig
    config: AWACConfig

    @override
    def next_values(self, outputs: RegressedNetworks, batch: SampleBatch) -> Tensor:
        """Expected values of the actor's actions by the target critics, [S, L] (arXiv:2006.09359, algorithm 1)."""
        return outputs.next_values(batch, by_target_actor=False)

    @override
    def advantages(self, outputs: RegressedNetworks, batch: SampleBatch) -> Tensor:
        """Advantages of the recorded actions over the mean value of the actor's actions, [S, L]."""
        return outputs.advantages(batch, self.config.actor_objective, "mean")
