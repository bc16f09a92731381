"""Objectives: the losses that a learner minimises, and the parameters that each updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlrun.data.sample_batch import SampleBatch
from rlrun.learner.optimizers import Adam, Optimizer

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.policy.flat_parameters import FlatParameters


@dataclass(frozen=True)
class Loss:
    """Result of a loss function.

    Attributes:
        total: The loss to minimise, [].
        statistics: Statistics to report by name, each []; the learner averages them over minibatches.
        priorities: New priorities of the rows, [S], for a prioritized replay; None if the loss gives none. At most one
            objective of a learner gives them.
        carry: Tensors by name for later objectives of the same minibatch, detached; see `Objective.needs`.
        assign: New values by the name of a parameter that has no gradient descent; see `Objective.assigns`.
    """

    total: Tensor
    statistics: Mapping[str, Tensor]
    priorities: Tensor | None = None
    carry: Mapping[str, Tensor] = field(default_factory=dict)
    assign: Mapping[str, Tensor] = field(default_factory=dict)


LossFunction = Callable[[Any, SampleBatch, Mapping[str, "Tensor"]], Loss]
"""A function of the policy's outputs, rows of experience [S, L] and the scheduled settings (each []).

For an objective without gradient descent, the first argument is the parameters by name instead.
"""


@dataclass(frozen=True)
class Objective:
    """A loss, the parameters that it updates, and the optimizer.

    A learner runs its objectives in order at every minibatch, each on the parameters after the objectives before it.

    Attributes:
        name: Name, unique in its learner.
        loss: The loss function; None if gradients come only by `Learner.apply_gradients`.
        lr: Name of the scheduled setting that is its learning rate.
        parameters: Prefix of the names of the parameters to update, which are adjacent in the flat vector. "" for all,
            None for none: it only assigns. Such an objective can give later losses a value of the whole minibatch,
            since shares and microbatches are summed before the next objective begins.
        every: It runs at the first of the minibatches that are for it, and at every n-th after that.
        max_grad_norm: Bound of the gradient's norm, or None.
        optimizer: The optimizer.
        needs: Names of earlier objectives whose `Loss.carry` its loss reads, as `batch["<objective>/<name>"]`.
        assigns: Names of the parameters whose values its loss gives as `Loss.assign`, at each of its minibatches.
            Over shares and microbatches they are averaged by valid steps, like the loss.
        is_main: Whether its statistics keep their names if there are several objectives; the names of the others'
            statistics are prefixed by their objective's name.
    """

    name: str
    loss: LossFunction | None
    lr: str = "lr"
    parameters: str | None = ""
    every: int = 1
    max_grad_norm: float | None = None
    optimizer: Optimizer = field(default_factory=Adam)
    needs: tuple[str, ...] = ()
    assigns: tuple[str, ...] = ()
    is_main: bool = False

    def statistic(self, name: str, *, is_alone: bool) -> str:
        """Name of a statistic in results.

        Args:
            name: Name in the loss.
            is_alone: Whether it is its learner's only objective.
        """
        return name if is_alone or self.is_main else f"{self.name}/{name}"

    def range_in(self, parameters: FlatParameters) -> tuple[int, int]:
        """Range of its parameters in the flat vector, as (offset, size); (0, 0) for none.

        Raises:
            ValueError: No parameter has the prefix, or the parameters are not adjacent.
        """
        return (0, 0) if self.parameters is None else parameters.range_under(self.parameters)


def check_objectives(objectives: Sequence[Objective], parameters: FlatParameters) -> None:
    """Refuses objectives that do not fit together, or do not fit a policy's parameters.

    Raises:
        ValueError: Two have one name; one has no parameters; one needs tensors that no earlier one carries at the same
            minibatch; or one assigns a parameter that does not exist or that another one updates.
    """
    before: dict[str, Objective] = {}
    ranges, assigned = {}, {}
    for objective in objectives:
        try:
            ranges[objective.name] = objective.range_in(parameters)
            assigned[objective.name] = [parameters.slot(name) for name in objective.assigns]
        except ValueError as error:
            raise ValueError(f"objective {objective.name}: {error}") from error
    for objective in objectives:
        name = objective.name
        if name in before:
            raise ValueError(f"two objectives are called {name}")
        for needed in objective.needs:
            giver = before.get(needed)
            if giver is None or giver.loss is None:
                raise ValueError(
                    f"objective {name} needs what {needed} carries, and no loss before it is called {needed}"
                )
            if objective.every % giver.every:
                raise ValueError(
                    f"objective {name} needs what {needed} carries, and is due where that is not "
                    f"(every {objective.every} and every {giver.every} minibatches)"
                )
        for slot in assigned[name]:
            for other, (start, size) in ranges.items():
                if start <= slot.offset < start + size:
                    raise ValueError(f"objective {name} assigns {slot.name}, which objective {other} descends")
        before[name] = objective
