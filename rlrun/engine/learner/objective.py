"""Objectives of a learner: loss functions with their parameters and optimizers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.learner.optimizers import Adam, Optimizer
from rlrun.engine.settings.config import AdaptiveRate

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.learner.projection import Projection
    from rlrun.engine.policy.flat_parameters import FlatParameters


@dataclass(frozen=True)
class Loss:
    """Result of a loss function: the loss, statistics to report, and replay priorities.

    Attributes:
        total: Loss to minimize, a scalar.
        statistics: Statistics to report by name, each a scalar; the learner averages them over minibatches.
        priorities: New replay priority (absolute TD error) of each sequence, or None. At most one objective of a
            learner computes priorities.
        carry: Detached tensors by name, which later losses read on the same minibatch.
        assign: New values, by parameter name, of parameters that are set without gradients.
    """

    total: Tensor
    statistics: Mapping[str, Tensor]
    priorities: Tensor | None = None
    carry: Mapping[str, Tensor] = field(default_factory=dict)
    assign: Mapping[str, Tensor] = field(default_factory=dict)


LossFunction = Callable[[Any, SampleBatch, Mapping[str, "Tensor"]], Loss]
"""Loss function of the policy's outputs, rows of experience [S, L] and scheduled settings (each []).

For an objective without gradients (`parameters` None), the first argument is a dict of the parameters instead.
"""


@dataclass(frozen=True)
class Objective:
    """Loss function of a learner, with the parameters that it trains and their optimizer.

    On each minibatch a learner runs its objectives in order, each on the parameters updated by the preceding ones.

    Attributes:
        name: Name, unique in its learner.
        loss: Loss function; None if gradients are passed to `Learner.apply_gradients` only.
        lr: Name of the scheduled learning-rate setting.
        adaptive_lr: Rule by which the learning rate adapts to the loss's statistic `kl`; None for the scheduled value.
        parameters: Name prefix of the parameters to train, which are adjacent in the flat vector. "" trains all
            parameters. None trains none: the objective then only assigns values, for example a statistic over the whole
            minibatch (all learners' shares and microbatches), for later losses to read.
        every: Update period n: the objective runs on the first of its minibatches, and on each n-th one after that.
        max_grad_norm: Gradient clipping threshold (global norm); None for no clipping.
        clipped_separately: Regular expression for the names of parameters whose gradient is clipped by its own norm,
            separately from the gradient of the other parameters; "" for a single norm.
        optimizer: Optimizer of the objective's parameters.
        needs: Names of earlier objectives whose `Loss.carry` this loss reads, as `batch["<objective>/<name>"]`.
        assigns: Names of the parameters that the loss sets by `Loss.assign` on each of its minibatches. Values from
            shares and microbatches are averaged, weighted by valid steps, like the loss. They overwrite the result of
            the gradient step.
        projects: Projections of the objective's parameters after each optimizer step.
        is_main: Whether the statistics keep their names in a learner with several objectives. Statistics of other
            objectives are prefixed by the objective's name.
    """

    name: str
    loss: LossFunction | None
    lr: str = "lr"
    adaptive_lr: AdaptiveRate | None = None
    parameters: str | None = ""
    every: int = 1
    max_grad_norm: float | None = None
    clipped_separately: str = ""
    optimizer: Optimizer = field(default_factory=Adam)
    needs: tuple[str, ...] = ()
    assigns: tuple[str, ...] = ()
    projects: tuple[Projection, ...] = ()
    is_main: bool = False

    def statistic(self, name: str, *, is_alone: bool) -> str:
        """Returns the name under which a statistic of the loss is reported; see `is_main` for the prefix.

        Args:
            name: Name of the statistic in `Loss.statistics`.
            is_alone: Whether this objective is the learner's only one.
        """
        return name if is_alone or self.is_main else f"{self.name}/{name}"

    def range_in(self, parameters: FlatParameters) -> tuple[int, int]:
        """Returns the offset and size of the objective's parameters in the flat vector; (0, 0) if it trains none.

        Raises:
            ValueError: No parameter has the prefix, or the parameters are not adjacent.
        """
        return (0, 0) if self.parameters is None else parameters.range_under(self.parameters)


def check_objectives(objectives: Sequence[Objective], parameters: FlatParameters) -> None:
    """Validates that a learner's objectives are consistent with each other and with the policy's parameters.

    Raises:
        ValueError: Two objectives share a name; an objective has no parameters; an objective needs tensors that no
            earlier objective provides on the same minibatch; an objective assigns a parameter that does not exist or
            that another objective updates; or it projects a parameter that it does not update.
    """
    before: dict[str, Objective] = {}
    ranges, assigned, projected = {}, {}, {}
    for objective in objectives:
        try:
            ranges[objective.name] = objective.range_in(parameters)
            assigned[objective.name] = [parameters.slot(name) for name in objective.assigns]
            projected[objective.name] = [
                parameters.slot(name) for projection in objective.projects for name in projection.parameters
            ]
        except ValueError as error:
            raise ValueError(f"objective {objective.name}: {error}") from error
    for objective in objectives:
        name = objective.name
        if name in before:
            raise ValueError(f"two objectives are named {name}")
        for needed in objective.needs:
            giver = before.get(needed)
            if giver is None or giver.loss is None:
                raise ValueError(
                    f"objective {name} needs the results of objective {needed}, but no objective with a loss has that "
                    "name and runs earlier"
                )
            if objective.every % giver.every:
                raise ValueError(
                    f"objective {name} needs the results of objective {needed}, but runs when it does not (every "
                    f"{objective.every} and every {giver.every} minibatches)"
                )
        for slot in assigned[name]:
            for other, (start, size) in ranges.items():
                if other != name and start <= slot.offset < start + size:
                    raise ValueError(f"objective {name} assigns {slot.name}, which objective {other} optimizes")
        start, size = ranges[name]
        for slot in projected[name]:
            if not start <= slot.offset < start + size:
                raise ValueError(f"objective {name} projects {slot.name}, which it does not optimize")
        before[name] = objective
