"""One update of a policy's parameters, as a function of tensors that it changes in place (torch).

The same function serves both executions: called as it is (eager), or traced once into a graph of tensor operations and
compiled as a whole, forward and backward pass, clipping and optimizer together (`rlrun.learner.compilation`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree, named_leaves
from rlrun.learner.objective import Loss, Objective
from rlrun.policy.policy import Policy

BETA_1 = 0.9
BETA_2 = 0.999

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


@dataclass(frozen=True)
class OptimizerState:
    """Adam's state for one objective.

    Attributes:
        first: Running mean of the gradient, over the objective's parameters.
        second: Running mean of its square.
        steps: Updates so far, [].
    """

    first: Tensor
    second: Tensor
    steps: Tensor


class Update:
    """One pass over a policy's objectives on one minibatch.

    Attributes:
        statistics: Names of what it measures, in the order of its totals; known after the first call.
    """

    def __init__(
        self,
        policy: Policy,
        objectives: Sequence[Objective],
        precision: Precision = "float32",
        *,
        names_objectives: bool = False,
    ) -> None:
        """Takes what is due.

        Args:
            policy: The policy.
            objectives: The objectives that are due.
            precision: What the network's passes are computed in.
            names_objectives: Whether the names of statistics begin with their objective's.
        """
        self.policy = policy
        self.objectives = tuple(objectives)
        self.precision = precision
        self.names_objectives = names_objectives
        self.statistics: tuple[str, ...] = ()

    def __call__(
        self,
        parameters: Parameters,
        states: Sequence[OptimizerState],
        batch: SampleBatch,
        scheduled: Mapping[str, Tensor],
    ) -> Tensor:
        """Moves the parameters.

        Args:
            parameters: Those that move, changed in place, and those of the target network.
            states: Optimizer states of the objectives; changed in place.
            batch: A minibatch, columns [S, L, ...].
            scheduled: Settings that change over a run, each [].

        Returns:
            The statistics of this minibatch, and behind them the priorities of its rows if a loss gives them,
            [number of statistics (+ S)].
        """
        measured: dict[str, Tensor] = {}
        priorities: list[Tensor] = []
        for objective, state in zip(self.objectives, states, strict=True):
            gradient, loss = gradient_of(self.policy, objective, parameters, batch, scheduled, self.precision)
            norm = apply_gradient(self.policy, objective, parameters.flat, state, gradient, scheduled)
            for name, value in {**loss.statistics, "grad_norm": norm}.items():
                measured[f"{objective.name}/{name}" if self.names_objectives else name] = value.detach()
            priorities += [] if loss.priorities is None else [loss.priorities.detach().float()]
        self.statistics = tuple(measured)
        statistics = torch.stack([value.float() for value in measured.values()])
        return torch.cat([statistics, *priorities]) if priorities else statistics


class GradientSum:
    """One objective's gradient on a minibatch, weighed by the minibatch's valid steps so that such sums can be added.

    Gradients of parts of a batch, from several learners or from several microbatches, add up to that of the whole,
    because every loss is a mean over valid steps.

    Attributes:
        statistics: Names of what it measures, in the order of the sum's parts; known after the first call.
    """

    def __init__(
        self, policy: Policy, objective: Objective, precision: Precision = "float32", *, weighed: bool = True
    ) -> None:
        """Takes whose gradient it is, and of what.

        Args:
            policy: The policy.
            objective: The objective.
            precision: What the network's passes are computed in.
            weighed: Whether the sum is one; otherwise gradient and statistics are means, and the number of valid steps
                stands behind them.
        """
        self.policy = policy
        self.objective = objective
        self.precision = precision
        self.weighed = weighed
        self.statistics: tuple[str, ...] = ()

    def __call__(
        self,
        parameters: Parameters,
        states: Sequence[OptimizerState],
        batch: SampleBatch,
        scheduled: Mapping[str, Tensor],
    ) -> Tensor:
        """Returns gradient, statistics and 1, all times the number of valid steps, [size + statistics + 1].

        Args:
            parameters: All parameters.
            states: None; the sum moves nothing.
            batch: A minibatch, columns [S, L, ...].
            scheduled: Settings that change over a run, each [].
        """
        gradient, loss = gradient_of(self.policy, self.objective, parameters, batch, scheduled, self.precision)
        statistics = loss.statistics
        self.statistics = tuple(statistics)
        weight = batch["valid"].sum().float()
        parts = [value.detach().float().reshape(1) for value in statistics.values()]
        if not self.weighed:
            return torch.cat([gradient, *parts, weight.reshape(1)])
        total: Tensor = torch.cat([gradient, *parts, torch.ones_like(weight).reshape(1)]) * weight
        return total


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
        The mean statistics, and the norm of the mean gradient last, [number of statistics + 1].
    """
    mean = sum_as_means(total)[:-1]
    size = len(state.second)
    norm = apply_gradient(policy, objective, flat, state, mean[:size], scheduled)
    return torch.cat([mean[size:], norm.reshape(1)])


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
    start, size = parameter_range(policy, objective)
    # Nothing is differentiated but these: an actor's loss costs no gradient of the critics that judge it.
    leaf = parameters.flat[start : start + size].detach().requires_grad_()
    with computed_in(precision, leaf.device):
        views = policy.parameters.views(parameters.flat.detach(), leaf, start)
        loss = objective.loss(policy.outputs(views, batch, target_views(policy, parameters)), batch, scheduled)
    (gradient,) = torch.autograd.grad(loss.total, leaf)
    return gradient, loss


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
    start, size = parameter_range(policy, objective)
    norm: Tensor = gradient.norm()
    if objective.max_grad_norm is not None:
        gradient = clipped(gradient, norm, objective.max_grad_norm)
    adam_step(flat[start : start + size], gradient, state, scheduled[objective.lr], objective.epsilon)
    return norm


def clipped(gradient: Tensor, norm: Tensor, bound: float) -> Tensor:
    """Returns a gradient, or a part of it, scaled down so that the whole one's norm does not exceed a bound."""
    return gradient * computed_once((bound / (norm + 1e-6)).clamp(max=1.0))


def parameter_range(policy: Policy, objective: Objective) -> tuple[int, int]:
    """Returns where an objective's parameters lie in the flat vector, as (offset, size).

    Raises:
        ValueError: If there are none, or others lie between them.
    """
    slots = [slot for slot in policy.parameters.slots if slot.name.startswith(objective.parameters)]
    if not slots:
        raise ValueError(f"objective {objective.name}: no parameter's name begins with {objective.parameters!r}")
    start, size = slots[0].offset, sum(slot.size for slot in slots)
    if slots[-1].offset + slots[-1].size != start + size:
        raise ValueError(
            f"objective {objective.name}: the parameters under {objective.parameters!r} are not side by side"
        )
    return start, size


def adam_step(parameters: Tensor, gradient: Tensor, state: OptimizerState, lr: Tensor, epsilon: float) -> None:
    """Moves parameters by one step of Adam, in place.

    Source:
        Kingma and Ba, arXiv:1412.6980, algorithm 1.
    """
    state.steps.add_(1)
    state.first.lerp_(gradient, 1 - BETA_1)
    state.second.mul_(BETA_2).addcmul_(gradient, gradient, value=1 - BETA_2)
    step_size = computed_once(lr / (1 - BETA_1**state.steps))
    root_correction = computed_once((1 - BETA_2**state.steps).rsqrt())
    denominator = (state.second.sqrt() * root_correction).add_(epsilon)
    parameters.sub_(step_size * state.first / denominator)


def computed_once(scalar: Tensor) -> Tensor:
    """Returns a scalar as it is, [].

    The compiler would compute it anew, powers and roots included, for every few parameters that it moves; a view with
    strides of its own needs it in memory.
    """
    return scalar.as_strided((), ())


def flattened_arguments(
    parameters: Parameters,
    states: Sequence[OptimizerState],
    batch: Mapping[str, Any],
    scheduled: Mapping[str, Tensor],
) -> list[Tensor]:
    """Returns an update's arguments as one list of tensors, in the order in which `traceable` takes them."""
    tensors = [parameters.flat]
    tensors += [] if parameters.target is None else [parameters.target]
    for state in states:
        tensors += [state.first, state.second, state.steps]
    tensors += [leaf for _, leaf in named_leaves(dict(batch))]
    return tensors + list(scheduled.values())


def traceable(
    update: Update | GradientSum,
    num_states: int,
    batch: Mapping[str, Any],
    scheduled: Mapping[str, Tensor],
    *,
    has_target: bool = False,
) -> Any:
    """Returns an update, or its first half, as a function of one flat list of tensors.

    Args:
        update: The update.
        num_states: Number of optimizer states.
        batch: A minibatch with the structure of those to come.
        scheduled: Scheduled settings with the names of those to come.
        has_target: Whether there is a target network.
    """

    def function(*tensors: Tensor) -> Tensor:
        arguments = iter(tensors)
        parameters = Parameters(next(arguments), next(arguments) if has_target else None)
        states = [OptimizerState(next(arguments), next(arguments), next(arguments)) for _ in range(num_states)]
        columns = SampleBatch({name: map_tree(lambda _: next(arguments), tree) for name, tree in batch.items()})
        return update(parameters, states, columns, {name: next(arguments) for name in scheduled})

    return function
