"""TRPO and NPG: policy gradients within a trust region, and natural policy gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from rlrun.algorithms.loss_metrics import ENTROPY, GRAD_NORM, KL
from rlrun.algorithms.trust_region.settings import TRPOConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.learning_rows import learning_rows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow, Operator
from rlrun.engine.flow.operators.advantages import ComputeAdvantages, Standardize
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.training import TrainOnBatch
from rlrun.engine.flow.operators.value_estimates import MeasureValues
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.masked import masked_mean
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.settings.config import defaults, fixed
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs
    from rlrun.engine.policy.policy import Policy


POLICY, VALUES = "policy", "values"
"""Names of the objectives: the natural gradient step, and the regression of the values."""


class TRPO(Algorithm[TRPOConfig]):
    """Trust region policy optimization: a natural gradient step with bounded KL divergence (arXiv:1502.05477)."""

    Config: ClassVar[type[TRPOConfig]] = TRPOConfig
    policy_family = "rlrun.engine.policy.actor_critic:ActorCriticPolicy"
    learner_metrics = (
        Metric("improvement", "", "Increase of the surrogate objective from the step"),
        KL,
        Metric("step_length", "", "Fraction of the natural-gradient step taken; 0 if the line search failed"),
        ENTROPY,
        Metric("value_loss", "", "Mean squared error of the values", mode="min"),
        GRAD_NORM,
    )
    operator_metrics = MeasureValues.declared_metrics

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        """Objectives: the natural gradient step of the policy, and the regression of the value network."""
        from rlrun.algorithms.trust_region.natural_gradient import NaturalGradientStep

        prefix = value_prefix(policy)
        moved = tuple(slot.name for slot in policy.parameters.slots if not slot.name.startswith(prefix))
        step = NaturalGradientStep(policy, moved, self.config)
        bound = self.config.max_grad_norm
        return [
            Objective(POLICY, step, parameters=None, assigns=moved, is_main=True),
            Objective(VALUES, self.value_loss, parameters=prefix, max_grad_norm=bound, is_main=True),
        ]

    def value_loss(self, outputs: ActorCriticOutputs, batch: SampleBatch, scheduled: Mapping[str, Tensor]) -> Loss:
        """Mean squared error of the values over S sequences of L steps."""
        loss = masked_mean((outputs.values - batch["value_targets"]).square(), batch["valid"].float())
        return Loss(loss, {"value_loss": loss})

    @override
    def learn(self, fragments: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that fits the value network to each batch and takes one policy step on the batch.

        Advantages are computed before both steps, so the order of the steps does not matter.
        """
        config = self.config
        return (
            fragments.for_each(ComputeAdvantages(config.gamma, config.gae_lambda))
            .combine(ConcatBatches(config.train_batch_size))
            .for_each(MeasureValues())
            .for_each(Standardize("advantages"))
            .for_each(
                TrainOnBatch(
                    trainee,
                    num_epochs=config.value_epochs,
                    minibatch_size=config.minibatch_size,
                    seq_len=config.steps_in_row,
                    objectives=(VALUES,),
                )
            )
            .for_each(TakeStep(trainee, POLICY, seq_len=config.steps_in_row))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )


def value_prefix(policy: Policy) -> str:
    """Prefix of the names of the value network's parameters, which differs if the policy has an action decoder."""
    names = (slot.name for slot in policy.parameters.slots)
    return "value_" if any(name.startswith("value_") for name in names) else "network.value_"


class TakeStep(Operator):
    """Takes one step on an objective with a whole batch, on which the other objectives have already been trained.

    Args:
        trainee: The policy in training.
        objective: Name of the objective.
        seq_len: Number of steps per sequence of a recurrent policy; None for single steps.
    """

    learns = True

    def __init__(self, trainee: Trainee, objective: str, *, seq_len: int | None = None) -> None:
        self.trainee = trainee
        self.objective = objective
        self.seq_len = seq_len

    @override
    def settings(self) -> dict[str, Any]:
        return {"objective": self.objective}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Takes the step on a batch [T, B]; returns the batch unchanged."""
        columns = SampleBatch({name: column for name, column in item.items() if name != "weights_version"})
        rows = learning_rows(columns, seq_len=self.seq_len, whole_fragments=False)
        scheduled = self.trainee.clock.scheduled()
        self.trainee.learner.step(rows, scheduled=scheduled, objectives=(self.objective,))
        return item


@defaults(max_kl=0.05)
@fixed("npg always takes the full step; use trpo for a line search", line_search_steps=0, shrink=0.8)
class NPGConfig(TRPOConfig):
    """Settings of NPG: TRPO's settings without a line search, so that `max_kl` bounds the step only to second order."""


class NPG(TRPO):
    """Natural policy gradient: steps of constant KL divergence (Kakade 2001; Rajeswaran et al., arXiv:1703.02660)."""

    Config: ClassVar[type[NPGConfig]] = NPGConfig
