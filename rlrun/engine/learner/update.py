"""Update of a policy's parameters on a minibatch, as a function that can be traced (torch).

All executors share this function. They call it directly (eager), or trace it into one graph with forward and backward
pass, gradient clipping and optimizer step, and translate it as a whole (`rlrun.engine.learner.executors.execution`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.learner.objective import Loss, Objective
from rlrun.engine.learner.optimizers import STEPS, Optimizer, OptimizerState, computed_once
from rlrun.engine.messages.errors import TrainingFailed
from rlrun.engine.policy.policy import Policy
from rlrun.engine.settings.registry import load_internal

GRAD_NORM = "grad_norm"
"""Name of the statistic for the gradient norm before clipping, in results."""

CLIP, PROJECT = "rlrun.engine.learner.separate_norms:clipped_separately", "rlrun.engine.learner.projection:project"
"""Import paths of functions that only objectives with separate norms, or with projections, need."""

Precision = Literal["float32", "bfloat16"]
"""Floating-point precision of forward and backward passes; parameters, losses and optimizers are always float32."""


@dataclass(frozen=True)
class Parameters:
    """Parameters of a policy's networks and of its target network, as flat vectors.

    Attributes:
        flat: All P parameters, [P].
        target: Parameters of the target network, [P]; None without a target network.
    """

    flat: Tensor
    target: Tensor | None = None

    def update_target(self, start: int, size: int, tau: float) -> None:
        """Moves a range of the target network's parameters towards the current ones by the fraction `tau`.

        Does nothing without a target network.

        Args:
            start: Index of the range's first parameter in the flat vector.
            size: Number of parameters.
            tau: Fraction of the distance to move; 1 copies the current parameters.
        """
        if self.target is None:
            return
        own, present = self.target[start : start + size], self.flat[start : start + size]
        if tau == 1.0:
            own.copy_(present)
        else:
            own.lerp_(present, tau)


def fresh_state(optimizer: Optimizer, size: int, device: torch.device | None = None) -> OptimizerState:
    """Creates the initial optimizer state for `size` parameters: all zeros."""
    return {part: torch.zeros(() if part == STEPS else size, device=device) for part in optimizer.parts}


class Computation(Protocol):
    """Interface of a learner's computations on a minibatch: a parameter update, or gradients only.

    Attributes:
        name: Name of the computation, unique in its learner.
        objectives: The losses that the computation evaluates, with their parameters and optimizers.
        statistics: Names of the statistics; known after the first call.
        carried: Names of the additional returned tensors (`Loss.carry`); known after the first call.
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
        """Runs the computation on a minibatch; may change parameters and optimizer states in place."""


class Update:
    """Parameter update on one minibatch by all losses that are due on it.

    Args:
        policy: Policy to update.
        objectives: Losses to minimize, with their parameters and optimizers.
        precision: Floating-point precision of the networks' forward and backward passes.
        names_objectives: Whether statistics' names are prefixed with the objective's name.

    Attributes:
        name: Name of the computation, unique in its learner.
        objectives: Losses to minimize, with their parameters and optimizers.
        statistics: Names of the statistics, in order; known after the first call.
        carried: Always empty: no tensors are passed to later computations.
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
        """Updates the parameters and optimizer states in place.

        Args:
            parameters: Online parameters (changed in place) and target network's parameters.
            states: Optimizer states by objective; changed in place.
            batch: A minibatch, columns [S, L, ...].
            scheduled: Current values of scheduled settings (learning rate, coefficients) by name, each a scalar.

        Returns:
            Vector of the minibatch's statistics, followed by the rows' priorities if a loss computes them,
            [number of statistics (+ S)].
        """
        measured: dict[str, Tensor] = {}
        priorities: list[Tensor] = []
        carried: dict[str, Tensor] = {}
        for objective, state in zip(self.objectives, states, strict=True):
            seen = with_shared_tensors(batch, objective, carried)
            gradient, loss = gradient_of(self.policy, objective, parameters, seen, scheduled, self.precision)
            statistics = dict(loss.statistics)
            if objective.parameters is not None:
                statistics[GRAD_NORM] = apply_gradient(
                    self.policy, objective, parameters.flat, state, gradient, scheduled
                )
            values = assigned_values(objective, loss)
            if values:
                present = current_values(self.policy, objective, parameters.flat)
                known = torch.where(batch["valid"].any(), torch.cat(values), present)
                assign(self.policy, objective, parameters.flat, known)
            carried |= shared_tensors(objective, loss)
            for name, value in statistics.items():
                measured[objective.statistic(name, is_alone=not self.names_objectives)] = value.detach()
            priorities += [] if loss.priorities is None else [loss.priorities.detach().float()]
        self.statistics = tuple(measured)
        found = torch.stack([value.float() for value in measured.values()])
        return [torch.cat([found, *priorities]) if priorities else found]


def with_shared_tensors(batch: SampleBatch, objective: Objective, carried: Mapping[str, Tensor]) -> SampleBatch:
    """Returns the batch of a loss with the tensors of earlier losses added, as columns `<objective>/<name>`."""
    if not objective.needs:
        return batch
    needed = {name: tensor for name, tensor in carried.items() if name.partition("/")[0] in objective.needs}
    return SampleBatch(batch, **needed)


def shared_tensors(objective: Objective, loss: Loss) -> dict[str, Tensor]:
    """Returns the tensors that a loss passes to later losses, without gradients, by the name `<objective>/<name>`."""
    return {f"{objective.name}/{name}": tensor.detach() for name, tensor in loss.carry.items()}


def assigned_values(objective: Objective, loss: Loss) -> list[Tensor]:
    """Returns the values that a loss assigns to parameters, as one vector in the order of `Objective.assigns`.

    Raises:
        ValueError: The loss assigns parameters other than those that the objective declares.
    """
    if set(loss.assign) != set(objective.assigns):
        declared, given = ", ".join(objective.assigns) or "nothing", ", ".join(loss.assign) or "nothing"
        raise ValueError(
            f"objective {objective.name} declares that it assigns {declared}, but its loss assigns {given}"
        )
    return [loss.assign[name].detach().float().reshape(-1) for name in objective.assigns]


def current_values(policy: Policy, objective: Objective, flat: Tensor) -> Tensor:
    """Returns the current values of the parameters that a loss sets directly (`Objective.assigns`), as one vector."""
    slots = [policy.parameters.slot(name) for name in objective.assigns]
    return torch.cat([flat[slot.offset : slot.offset + slot.size] for slot in slots])


def assign(policy: Policy, objective: Objective, flat: Tensor, values: Tensor) -> None:
    """Writes new values, concatenated into one vector, to the parameters that a loss sets without gradients."""
    slots = [policy.parameters.slot(name) for name in objective.assigns]
    for slot, value in zip(slots, torch.split(values, [slot.size for slot in slots]), strict=True):
        flat[slot.offset : slot.offset + slot.size].copy_(value)


def num_assigned(policy: Policy, objective: Objective) -> int:
    """Returns the total number of elements of the parameters that a loss sets directly (`Objective.assigns`)."""
    return sum(policy.parameters.slot(name).size for name in objective.assigns)


def apply_sum(
    policy: Policy,
    objective: Objective,
    flat: Tensor,
    state: OptimizerState,
    total: Tensor,
    scheduled: Mapping[str, Tensor],
) -> Tensor:
    """Updates parameters and optimizer state in place, with a gradient that is summed over valid steps.

    Returns:
        Mean statistics, followed by the norm of the mean gradient if parameters are trained; `measured_by` returns
        their names.
    """
    mean = sum_as_means(total)[:-1]
    _, size = objective.range_in(policy.parameters)
    first_statistic = size + num_assigned(policy, objective)
    measured = mean[first_statistic:]
    if objective.parameters is not None:
        norm = apply_gradient(policy, objective, flat, state, mean[:size], scheduled)
        measured = torch.cat([measured, norm.reshape(1)])
    if objective.assigns:
        present = current_values(policy, objective, flat)
        assign(policy, objective, flat, torch.where(total[-1] > 0, mean[size:first_statistic], present))
    return measured


def measured_by(objective: Objective, statistics: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of a loss's statistics: the ones that it reports, and its gradient norm."""
    return (*statistics,) if objective.parameters is None else (*statistics, GRAD_NORM)


def sum_as_means(total: Tensor) -> Tensor:
    """Divides a gradient sum by its number of valid steps; returns the means, followed by the number of steps."""
    return torch.cat([total[:-1] / total[-1].clamp(min=1), total[-1:]])


def gradient_of(
    policy: Policy,
    objective: Objective,
    parameters: Parameters,
    batch: SampleBatch,
    scheduled: Mapping[str, Tensor],
    precision: Precision,
) -> tuple[Tensor, Loss]:
    """Returns the gradient of a loss with respect to the parameters that it trains, and the loss itself."""
    assert objective.loss is not None
    if objective.parameters is None:
        views = policy.parameters.views(parameters.flat.detach())
        return parameters.flat[:0], require_loss(objective, objective.loss(views, batch, scheduled))
    start, size = objective.range_in(policy.parameters)
    # Only these parameters require gradients: an actor's loss computes none for the critics' parameters that it uses.
    leaf = parameters.flat[start : start + size].detach().requires_grad_()
    with computed_in(precision, leaf.device):
        views = policy.parameters.views(parameters.flat.detach(), leaf, start)
        loss = objective.loss(policy.outputs(views, batch, target_views(policy, parameters)), batch, scheduled)
    require_loss(objective, loss)
    (gradient,) = torch.autograd.grad(loss.total, leaf)
    return gradient, loss


def require_loss(objective: Objective, loss: Any) -> Loss:
    """Validates that an objective's loss function returned a `Loss`.

    Raises:
        TrainingFailed: The loss function returned a different type.
    """
    if not isinstance(loss, Loss):
        raise TrainingFailed(f"the loss of objective {objective.name} must return a Loss, not {type(loss).__name__}")
    return loss


def target_views(policy: Policy, parameters: Parameters) -> dict[str, Tensor] | None:
    """Returns the target network's parameters by name; None without a target network."""
    return None if parameters.target is None else policy.parameters.views(parameters.target)


def computed_in(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Context manager that makes networks compute in the given floating-point precision (torch's autocast)."""
    if precision == "float32":
        return nullcontext()
    # autocast caches casts only of leaf tensors, and views of a flat vector are not leaves.
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)


def apply_gradient(
    policy: Policy,
    objective: Objective,
    flat: Tensor,
    state: OptimizerState,
    gradient: Tensor,
    scheduled: Mapping[str, Tensor],
) -> Tensor:
    """Clips a gradient, steps the optimizer in place, and projects parameters; returns the norm before clipping."""
    start, size = objective.range_in(policy.parameters)
    norm: Tensor = gradient.norm()
    if objective.clipped_separately:
        gradient = load_internal(CLIP)(policy, objective, gradient)
    elif objective.max_grad_norm is not None:
        gradient = clipped(gradient, norm, objective.max_grad_norm)
    objective.optimizer.step(flat[start : start + size], gradient, state, scheduled[objective.lr])
    if objective.projects:
        load_internal(PROJECT)(policy.parameters, objective.projects, flat)
    return norm


def clipped(gradient: Tensor, norm: Tensor, bound: float) -> Tensor:
    """Scales a gradient, or a slice of one, so that the norm of the whole gradient does not exceed the threshold."""
    return gradient * computed_once((bound / (norm + 1e-6)).clamp(max=1.0))
