"""What a learner minimises."""

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
    """What a loss function returns.

    Attributes:
        total: The number to minimise, [].
        statistics: Numbers to report, each [], by name; the learner averages them over minibatches.
        priorities: How much is to be learned from each row still, [S], for a prioritized replay; None if the loss
            says nothing of it. At most one objective of a learner gives them.
        carry: Tensors by name that later objectives of the same step read, without gradients; see `Objective.needs`.
        assign: New values by the name of a parameter that nobody descends; see `Objective.assigns`.
    """

    total: Tensor
    statistics: Mapping[str, Tensor]
    priorities: Tensor | None = None
    carry: Mapping[str, Tensor] = field(default_factory=dict)
    assign: Mapping[str, Tensor] = field(default_factory=dict)


LossFunction = Callable[[Any, SampleBatch, Mapping[str, "Tensor"]], Loss]
"""From a policy's outputs, rows of experience [S, L] and the scheduled settings (each []) to a loss.

An objective that moves no parameters is given the parameters by name in place of the policy's outputs.
"""


@dataclass(frozen=True)
class Objective:
    """One loss, the parameters it moves, and how.

    A learner runs its objectives in order at every minibatch, each on the parameters that the ones before it left.

    Attributes:
        name: Name of the objective, unique in its learner.
        loss: The loss function; None if gradients come from elsewhere, by `Learner.apply_gradients` alone.
        lr: Name of the scheduled setting that is its learning rate.
        parameters: Prefix of the names of the parameters it moves; they lie side by side. "" for all, None for none: it
            only assigns. Such an objective may tell a later loss a number of the whole minibatch: its parts, of several
            learners or microbatches, are added up before the next objective begins.
        every: It runs at every so many-th of the minibatches that it is asked about, from the first on.
        max_grad_norm: Bound of the gradient's norm, or None.
        optimizer: How the gradient moves the parameters.
        needs: Names of objectives before it whose `Loss.carry` its loss reads, as `batch["<objective>/<name>"]`.
        assigns: Names of the parameters whose values its loss gives as `Loss.assign`, at each of its minibatches.
            They are means over valid steps, like the loss, where parts of a minibatch are learned from apart.
        is_main: Whether its statistics keep their names where there are several objectives; those of the others begin
            with their objective's.
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
        """Returns what a statistic is called in results.

        Args:
            name: What the loss calls it.
            is_alone: Whether its learner has no other objective.
        """
        return name if is_alone or self.is_main else f"{self.name}/{name}"

    def range_in(self, parameters: FlatParameters) -> tuple[int, int]:
        """Returns where the parameters lie that it moves, as (offset, size); of none (0, 0).

        Raises:
            ValueError: There are none of that name, or others lie between them.
        """
        return (0, 0) if self.parameters is None else parameters.range_under(self.parameters)


def check_objectives(objectives: Sequence[Objective], parameters: FlatParameters) -> None:
    """Refuses objectives that do not fit together, or not a policy's parameters.

    Raises:
        ValueError: Two have one name; there are no parameters of one; one needs what was not carried before it in the
            same step; or one assigns a parameter that there is not, or that another one descends.
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
