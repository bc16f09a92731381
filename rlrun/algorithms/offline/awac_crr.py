"""AWAC and CRR: actors that imitate recorded actions, weighted by the critics' advantages."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from typing_extensions import override

from rlrun.algorithms.offline.weighted_regression import WeightedRegression, WeightedRegressionConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.settings.config import ConfigModel, PositiveInt, defaults

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.offline.regressed_networks import RegressedNetworks


class SampledValueSettings(ConfigModel):
    """Mixin for subclasses of `WeightedRegressionConfig`: state values are estimated from sampled actions."""

    num_sampled_actions: PositiveInt = 1
    """Number of the actor's actions whose values estimate the state value; Discrete actions need none."""

    @property
    def num_noises(self) -> int:
        """Number of actions that the losses sample at each observation."""
        return self.num_sampled_actions


class AWACConfig(SampledValueSettings, WeightedRegressionConfig):
    """Settings of AWAC (Nair et al., arXiv:2006.09359)."""


class AWAC(WeightedRegression):
    """Advantage-weighted actor-critic: the actor imitates recorded actions, weighted by their advantages.

    Actions may be a bounded Box or Discrete; expectations over Discrete actions are exact sums (arXiv:2006.09359).
    """

    Config: ClassVar[type[AWACConfig]] = AWACConfig
    config: AWACConfig

    @override
    def next_values(self, outputs: RegressedNetworks, batch: SampleBatch) -> Tensor:
        """Target critics' expected values of the actor's actions, [S, L] (arXiv:2006.09359, algorithm 1)."""
        return outputs.next_values(batch, by_target_actor=False)

    @override
    def advantages(self, outputs: RegressedNetworks, batch: SampleBatch) -> Tensor:
        """Advantages of the recorded actions over the mean value of the actor's actions, [rows, steps]."""
        return outputs.advantages(batch, self.config.actor_objective, "mean")


@defaults(max_weight=20.0, num_sampled_actions=4, tau=1.0, target_update_interval=100)
class CRRConfig(SampledValueSettings, WeightedRegressionConfig):
    """Settings of CRR (Wang et al., arXiv:2006.15134). `beta` multiplies advantages, while the paper's divides them."""

    weighting: Literal["exp", "binary"] = "exp"
    """Weights of recorded actions: `exp(beta * advantage)`, or `binary`, 1 where the advantage is positive and 0
    elsewhere (arXiv:2006.15134, eqs. 3 and 4)."""
    baseline: Literal["mean", "max"] = "mean"
    """State value in an advantage: the mean of the sampled actions' values, or their maximum; exact for Discrete
    actions."""


class CRR(WeightedRegression):
    """Critic-regularized regression: imitates the recorded actions that the critics rate higher than the actor's own.

    Actions may be a bounded Box or Discrete; expectations over Discrete actions are exact sums (arXiv:2006.15134).
    """

    Config = CRRConfig
    config: CRRConfig

    @override
    def next_values(self, outputs: RegressedNetworks, batch: SampleBatch) -> Tensor:
        """Target critics' expected values of the target actor's actions, [S, L] (arXiv:2006.15134, algorithm 1)."""
        return outputs.next_values(batch, by_target_actor=True)

    @override
    def advantages(self, outputs: RegressedNetworks, batch: SampleBatch) -> Tensor:
        """Advantages of the recorded actions over the actor's actions, [rows, steps] (arXiv:2006.15134, section 3)."""
        return outputs.advantages(batch, self.config.actor_objective, self.config.baseline)

    @override
    def weights_of(self, advantages: Tensor) -> Tensor:
        if self.config.weighting == "binary":
            return (advantages > 0).float()
        return super().weights_of(advantages)
