"""IQL: implicit Q-learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Gt, Lt
from typing_extensions import override

from rlrun.algorithms.loss_metrics import GRAD_NORM
from rlrun.algorithms.offline.weighted_regression import WeightedRegression, WeightedRegressionConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.settings.config import defaults
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.algorithms.offline.regressed_networks import RegressedNetworks
    from rlrun.engine.policy.policy import Policy


@defaults(beta=3.0)
class IQLConfig(WeightedRegressionConfig):
    """Settings of IQL (Kostrikov et al., arXiv:2110.06169)."""

    learns_values: ClassVar[bool] = True
    expectile: Annotated[float, Gt(0), Lt(1)] = 0.7
    """Expectile tau of the recorded actions' values that state values learn: 0.5 for their mean, close to 1 for their
    maximum."""


class IQL(WeightedRegression):
    """Implicit Q-learning: state values are upper expectiles of the values of recorded actions (arXiv:2110.06169).

    Only the values of recorded actions are used. Actions may be a bounded Box or Discrete.
    """

    Config: ClassVar[type[IQLConfig]] = IQLConfig
    config: IQLConfig
    learner_metrics = (
        *WeightedRegression.learner_metrics,
        Metric("value/loss", "", "Expectile loss of the state values", mode="min"),
        Metric("value/value_mean", "", "Mean state value"),
        GRAD_NORM.below("value/"),
    )

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objectives of the learner, in this order: state values, critics and actor."""
        bound = self.config.max_grad_norm
        value = Objective("value", self.value_loss, lr="critic_lr", parameters="value.", max_grad_norm=bound)
        critics, actor = super().objectives(policy)
        return [value, critics, replace(actor, needs=("value",))]

    def value_loss(self, outputs: RegressedNetworks, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Expectile regression to the target critics' minimum for recorded actions (arXiv:2110.06169, eq. 5)."""
        valid = batch["valid"].float()
        values = outputs.networks.outputs_of("value", outputs.networks.present(batch)).squeeze(-1)
        errors = outputs.networks.target_minimum(outputs.target_values_of(batch), batch) - values
        loss = masked_mean(expectile_loss(errors, self.config.expectile), valid)
        statistics = {"loss": loss, "value_mean": masked_mean(values.detach(), valid)}
        return Loss(loss, statistics, carry={"advantages": errors.detach()})

    @override
    def next_values(self, outputs: RegressedNetworks, batch: SampleBatch) -> Tensor:
        """State values of the next observations, [rows, steps] (arXiv:2110.06169, eq. 6)."""
        return outputs.networks.outputs_of("value", outputs.networks.following(batch)).squeeze(-1)

    @override
    def advantages(self, outputs: RegressedNetworks, batch: SampleBatch) -> Tensor:
        """Target critics' minimum for recorded actions, minus the state values, [S, L] (arXiv:2110.06169, eq. 7)."""
        advantages: Tensor = batch["value/advantages"]
        return advantages


def expectile_loss(errors: Tensor, expectile: float) -> Tensor:
    """Asymmetric squared errors [...]: weight `expectile` where the target exceeds the estimate, else 1 - `expectile`.

    Args:
        errors: Targets minus estimates, [...].
        expectile: The expectile tau.

    Source:
        Newey and Powell, "Asymmetric least squares estimation and testing", 1987; arXiv:2110.06169, eq. 4.
    """
    return (errors < 0).float().sub(expectile).abs() * errors.square()
