"""One update of a policy's parameters, as a function of tensors that it changes in place (torch).

The same function serves both executions: called as it is (eager), or traced once into a graph of tensor operations and
compiled as a whole, forward and backward pass, clipping and optimizer together (`rlrun.learner.compilation`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from rlrun.data.sample_batch import SampleBatch
from rlrun.errors import TrainingFailed
from rlrun.learner.objective import Loss, Objective
from rlrun.learner.optimizers import STEPS, Optimizer, OptimizerState, computed_once
from rlrun.policy.policy import Policy

GRAD_NORM = "grad_norm"
"""Name of the statistic that is the norm of an objective's gradient, before it is clipped."""

Precision = Literal["float32", "bfloat16"]
"""What a network's passes are computed in; parameters, losses and optimizers are float32 either way."""


@dataclass(frozen=True)
class Parameters:
    """What the networks of an update are made of.

    Attributes:
        flat: All parameters, [P].
        target: Those of the target network, [P]; None if there is none.
    """

    flat: Tensor
    target: Tensor | None = None


def fresh_state(optimizer: Optimizer, size: int, device: torch.device | None = None) -> OptimizerState:
    """Returns an optimizer's state before the first update of so many parameters."""
    return {part: torch.zeros(() if part == STEPS else size, device=device) for part in optimizer.parts}


class Computation(Protocol):
    """What a learner computes with a minibatch: an update, or the first half of one.

    Attributes:
        name: Tells it from other computations of the same learner.
        objectives: The objectives that take part.
        statistics: Names of what it measures; known after the first call.
        carried: Names of the tensors behind the first one that it returns; known after the first call.
    """

    name: str
    objectives: tuple[Objective, ...]
    statistics: tuple[str, ...]
    carried: tuple[str, ...]

    def __call__(
        self,
        parameters: Parameters,
        states: Sequence[OptimizerState],
        batch: SampleBatch,
        scheduled: Mapping[str, Tensor],
    ) -> list[Tensor]:
        """Computes with a minibatch; parameters and states may change in place."""


class Update:
    """One pass over a policy's objectives on one minibatch.

    Args:
        policy: The policy.
        objectives: The objectives that are due.
        precision: What the network's passes are computed in.
        names_objectives: Whether the names of statistics begin with their objective's.

    Attributes:
        name: Tells it from other computations over the same objectives.
        objectives: The objectives that are due.
        statistics: Names of what it measures, in the order of its totals; known after the first call.
        carried: Names of the tensors that it hands on to other computations; none.
    """

    def __init__(
        self,
        policy: Policy,
        objectives: Sequence[Objective],
        precision: Precision = "float32",
        *,
        names_objectives: bool = False,
    ) -> None:
        self.policy = policy
        self.name = f"update of {', '.join(objective.name for objective in objectives)}"
        self.objectives = tuple(objectives)
        self.precision = precision
        self.names_objectives = names_objectives
        self.statistics: tuple[str, ...] = ()
        self.carried: tuple[str, ...] = ()

    def __call__(
        self,
        parameters: Parameters,
        states: Sequence[OptimizerState],
        batch: SampleBatch,
        scheduled: Mapping[str, Tensor],
    ) -> list[Tensor]:
        """Moves the parameters.

        Args:
            parameters: Those that move, changed in place, and those of the target network.
            states: Optimizer states of the objectives; changed in place.
            batch: A minibatch, columns [S, L, ...].
            scheduled: Settings that change over a run, each [].

        Returns:
            One vector: the statistics of this minibatch, and behind them the priorities of its rows if a loss gives
            them, [number of statistics (+ S)].
        """
        measured: dict[str, Tensor] = {}
        priorities: list[Tensor] = []
        carried: dict[str, Tensor] = {}
        for objective, state in zip(self.objectives, states, strict=True):
            seen = with_carried(batch, objective, carried)
            gradient, loss = gradient_of(self.policy, objective, parameters, seen, scheduled, self.precision)
            statistics = dict(loss.statistics)
            if objective.parameters is not None:
                statistics[GRAD_NORM] = apply_gradient(
                    self.policy, objective, parameters.flat, state, gradient, scheduled
                )
            values = assigned_values(objective, loss)
            if values:
                present = present_values(self.policy, objective, parameters.flat)
                known = torch.where(batch["valid"].any(), torch.cat(values), present)
                assign(self.policy, objective, parameters.flat, known)
            carried |= carried_from(objective, loss)
            for name, value in statistics.items():
                measured[objective.statistic(name, is_alone=not self.names_objectives)] = value.detach()
            priorities += [] if loss.priorities is None else [loss.priorities.detach().float()]
        self.statistics = tuple(measured)
        found = torch.stack([value.float() for value in measured.values()])
        return [torch.cat([found, *priorities]) if priorities else found]


def with_carried(batch: SampleBatch, objective: Objective, carried: Mapping[str, Tensor]) -> SampleBatch:
    """Returns a batch with what an objective needs of those before it, as `<objective>/<name>`."""
    if not objective.needs:
        return batch
    needed = {name: tensor for name, tensor in carried.items() if name.partition("/")[0] in objective.needs}
    return SampleBatch(batch, **needed)


def carried_from(objective: Objective, loss: Loss) -> dict[str, Tensor]:
    """Returns what a loss hands on to later objectives, without gradients, as `<objective>/<name>`."""
    return {f"{objective.name}/{name}": tensor.detach() for name, tensor in loss.carry.items()}


def assigned_values(objective: Objective, loss: Loss) -> list[Tensor]:
    """Returns the values that a loss assigns, flat, in the order of the objective's `assigns`.

    Raises:
        ValueError: The loss assigns other parameters than the objective says.
    """
    if set(loss.assign) != set(objective.assigns):
        said, given = ", ".join(objective.assigns) or "none", ", ".join(loss.assign) or "none"
        raise ValueError(f"objective {objective.name} says that it assigns {said}, and its loss assigns {given}")
    return [loss.assign[name].detach().float().reshape(-1) for name in objective.assigns]


def present_values(policy: Policy, objective: Objective, flat: Tensor) -> Tensor:
    """Returns the present values of the parameters that an objective assigns, one parameter after another."""
    slots = [policy.parameters.slot(name) for name in objective.assigns]
    return torch.cat([flat[slot.offset : slot.offset + slot.size] for slot in slots])


def assign(policy: Policy, objective: Objective, flat: Tensor, values: Tensor) -> None:
    """Writes values, one parameter after another, into the parameters [P] that an objective assigns."""
    slots = [policy.parameters.slot(name) for name in objective.assigns]
    for slot, value in zip(slots, torch.split(values, [slot.size for slot in slots]), strict=True):
        flat[slot.offset : slot.offset + slot.size].copy_(value)


def num_assigned(policy: Policy, objective: Objective) -> int:
    """Returns how many numbers an objective assigns."""
    return sum(policy.parameters.slot(name).size for name in objective.assigns)


def apply_sum(
    policy: Policy,
    objective: Objective,
    flat: Tensor,
    state: OptimizerState,
    total: Tensor,
    scheduled: Mapping[str, Tensor],
) -> Tensor:
    """Moves the parameters by a sum of what `GradientSum` returned; `flat` and `state` change in place.

    Returns:
        The mean statistics, and the norm of the mean gradient last where parameters move, as `measured_by` names them.
    """
    mean = sum_as_means(total)[:-1]
    _, size = objective.range_in(policy.parameters)
    behind = size + num_assigned(policy, objective)
    measured = mean[behind:]
    if objective.parameters is not None:
        norm = apply_gradient(policy, objective, flat, state, mean[:size], scheduled)
        measured = torch.cat([measured, norm.reshape(1)])
    if objective.assigns:
        present = present_values(policy, objective, flat)
        assign(policy, objective, flat, torch.where(total[-1] > 0, mean[size:behind], present))
    return measured


def measured_by(objective: Objective, statistics: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of what a step of an objective measures: its loss's statistics, and its gradient's norm."""
    return (*statistics,) if objective.parameters is None else (*statistics, GRAD_NORM)


def sum_as_means(total: Tensor) -> Tensor:
    """Returns a sum of what `GradientSum` returned as means over valid steps, with the number of those behind them."""
    return torch.cat([total[:-1] / total[-1].clamp(min=1), total[-1:]])


def gradient_of(
    policy: Policy,
    objective: Objective,
    parameters: Parameters,
    batch: SampleBatch,
    scheduled: Mapping[str, Tensor],
    precision: Precision,
) -> tuple[Tensor, Loss]:
    """Returns the gradient of an objective's loss over its own parameters, [size], and the loss."""
    assert objective.loss is not None
    if objective.parameters is None:
        views = policy.parameters.views(parameters.flat.detach())
        return parameters.flat[:0], demand_loss(objective, objective.loss(views, batch, scheduled))
    start, size = objective.range_in(policy.parameters)
    # Nothing is differentiated but these: an actor's loss costs no gradient of the critics that it is evaluated by.
    leaf = parameters.flat[start : start + size].detach().requires_grad_()
    with computed_in(precision, leaf.device):
        views = policy.parameters.views(parameters.flat.detach(), leaf, start)
        loss = objective.loss(policy.outputs(views, batch, target_views(policy, parameters)), batch, scheduled)
    demand_loss(objective, loss)
    (gradient,) = torch.autograd.grad(loss.total, leaf)
    return gradient, loss


def demand_loss(objective: Objective, loss: Any) -> Loss:
    """Returns what the loss function of an objective returned.

    Raises:
        TrainingFailed: That is no `Loss`.
    """
    if not isinstance(loss, Loss):
        raise TrainingFailed(f"the loss of objective {objective.name} must return a Loss, not {type(loss).__name__}")
    return loss


def target_views(policy: Policy, parameters: Parameters) -> dict[str, Tensor] | None:
    """Returns the target network's parameters by name, None if there is none."""
    return None if parameters.target is None else policy.parameters.views(parameters.target)


def computed_in(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Has the networks that run within computed in a precision."""
    if precision == "float32":
        return nullcontext()
    # Its cache is for leaves of the graph, which views of a flat vector are not.
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)


def apply_gradient(
    policy: Policy,
    objective: Objective,
    flat: Tensor,
    state: OptimizerState,
    gradient: Tensor,
    scheduled: Mapping[str, Tensor],
) -> Tensor:
    """Moves an objective's parameters, in place, along a gradient that is clipped first; returns its norm before."""
    start, size = objective.range_in(policy.parameters)
    norm: Tensor = gradient.norm()
    if objective.max_grad_norm is not None:
        gradient = clipped(gradient, norm, objective.max_grad_norm)
    objective.optimizer.step(flat[start : start + size], gradient, state, scheduled[objective.lr])
    return norm


def clipped(gradient: Tensor, norm: Tensor, bound: float) -> Tensor:
    """Returns a gradient, or a part of it, scaled down so that the whole one's norm does not exceed a bound."""
    return gradient * computed_once((bound / (norm + 1e-6)).clamp(max=1.0))
