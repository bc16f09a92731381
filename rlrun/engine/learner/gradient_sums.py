"""Sums of gradients over the parts of a minibatch: microbatches, or several learners' shares (torch)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.learner.executors.execution import Execution
from rlrun.engine.learner.objective import Objective
from rlrun.engine.learner.optimizers import OptimizerState
from rlrun.engine.learner.update import (
    Parameters,
    Precision,
    assigned_values,
    gradient_of,
    num_assigned,
    shared_tensors,
    with_shared_tensors,
)
from rlrun.engine.policy.policy import Policy

PRIORITIES = "priorities"
"""Name of the replay priorities among the tensors that follow a gradient sum."""


class GradientSum:
    """Gradient of one loss on a minibatch, multiplied by the number of valid steps so that parts can be added.

    Every loss is a mean over valid steps, so weighted gradients of microbatches or of learners' shares add up to the
    gradient of the whole minibatch. Statistics, and values that the loss assigns to parameters, are weighted likewise.
    Replay priorities, one per row, are returned after the sum, unweighted.

    Args:
        policy: Policy whose loss is differentiated.
        objective: Loss to differentiate, and its parameters.
        precision: Floating-point precision of the networks' forward and backward passes.

    Attributes:
        name: Name of the computation, unique in its learner.
        objectives: The one objective, as a list.
        statistics: Names of the statistics, in order; known after the first call.
        carried: Names of the tensors passed to later losses, and `PRIORITIES` if the loss computes them; known after
            the first call.
    """

    def __init__(self, policy: Policy, objective: Objective, precision: Precision = "float32") -> None:
        self.policy = policy
        self.name = f"gradient of {objective.name}"
        self.objectives: tuple[Objective, ...] = (objective,)
        self.precision = precision
        self.statistics: tuple[str, ...] = ()
        self.carried: tuple[str, ...] = ()

    def __call__(
        self,
        parameters: Parameters,
        states: Sequence[OptimizerState],
        batch: SampleBatch,
        scheduled: Mapping[str, Tensor],
    ) -> list[Tensor]:
        """Computes the vector (gradient, assigned values, statistics, 1), times the number of valid steps.

        The result is this vector, followed by the tensors of `Loss.carry`, and the rows' priorities if there are any.

        Args:
            parameters: Online and target parameters.
            states: Unused, since no parameters are updated.
            batch: A minibatch, columns [S, L, ...], with the tensors that the objective needs from earlier ones.
            scheduled: Current values of scheduled settings (learning rate, coefficients) by name, each [].
        """
        (objective,) = self.objectives
        gradient, loss = gradient_of(self.policy, objective, parameters, batch, scheduled, self.precision)
        carried = shared_tensors(objective, loss)
        if loss.priorities is not None:
            carried[PRIORITIES] = loss.priorities.detach().float()
        self.statistics, self.carried = tuple(loss.statistics), tuple(carried)
        weight = batch["valid"].sum().float()
        parts = assigned_values(objective, loss)
        parts += [value.detach().float().reshape(1) for value in loss.statistics.values()]
        # A traced function must not return one of its arguments.
        handed_on = [tensor.clone() for tensor in carried.values()]
        return [torch.cat([gradient, *parts, torch.ones_like(weight).reshape(1)]) * weight, *handed_on]


class GradientSums:
    """Gradients of all losses of a learner on a minibatch, accumulated over microbatches.

    Args:
        policy: Policy whose loss is differentiated.
        objectives: The learner's losses, with their parameters and optimizers.
        precision: Floating-point precision of the networks' forward and backward passes.
        execution: Backend that computes the gradients.
        microbatch_size: Steps per microbatch (gradient accumulation, to save memory); None for the whole minibatch.
    """

    def __init__(
        self,
        policy: Policy,
        objectives: Iterable[Objective],
        precision: Precision,
        execution: Execution,
        *,
        microbatch_size: int | None,
    ) -> None:
        self._execution = execution
        self._microbatch_size = microbatch_size
        self._sums = {each.name: GradientSum(policy, each, precision) for each in objectives if each.loss is not None}

    @property
    def statistics(self) -> dict[str, tuple[str, ...]]:
        """Names of the statistics that follow each loss's gradient, known after the first computation."""
        return {name: each.statistics for name, each in self._sums.items()}

    def over(
        self,
        objectives: Iterable[Objective],
        batch: SampleBatch,
        parameters: Parameters,
        scheduled: Mapping[str, Tensor],
    ) -> Iterator[tuple[Objective, Tensor, Tensor]]:
        """Yields each loss with its gradient and replay priorities on a minibatch, both computed on demand.

        Each gradient is computed with the parameters at that time, which include updates by the preceding losses. There
        is one priority per row, or none if the loss does not compute priorities.

        Args:
            objectives: The losses to differentiate, in the order in which they are yielded.
            batch: A minibatch on the learner's device.
            parameters: Current parameters of the policy's networks and of its target network.
            scheduled: Current values of scheduled settings (learning rate, coefficients) by name, each a scalar.
        """
        parts = self._microbatches(batch)
        carried: list[dict[str, Tensor]] = [{} for _ in parts]
        for objective in objectives:
            gradient_sum = self._sums[objective.name]
            total: Tensor | None = None
            priorities = [parameters.flat[:0]]
            for part, tensors in zip(parts, carried, strict=True):
                seen = with_shared_tensors(part, objective, tensors)
                addend, *own = self._execution(gradient_sum, parameters, (), seen, scheduled)
                handed_on = dict(zip(gradient_sum.carried, own, strict=True))
                priorities += [handed_on.pop(PRIORITIES)] if PRIORITIES in handed_on else []
                tensors.update(handed_on)
                total = addend if total is None else total.add_(addend)
            assert total is not None
            yield objective, total, torch.cat(priorities)

    def _microbatches(self, batch: SampleBatch) -> list[SampleBatch]:
        if self._microbatch_size is None:
            return [batch]
        rows, length = batch["valid"].shape
        size = max(self._microbatch_size // length, 1)
        return [batch.map(lambda leaf, start=start: leaf[start : start + size]) for start in range(0, rows, size)]


def share_of(
    batch: SampleBatch, drawn: Sequence[Mapping[str, NDArray[np.float32]]], share: tuple[int, int]
) -> tuple[SampleBatch, list[dict[str, NDArray[np.float32]]], int]:
    """Selects a learner's share of each minibatch, and of the random columns drawn for it.

    Args:
        batch: Rows of K minibatches, concatenated.
        drawn: Random columns for each minibatch; a column with a single row belongs to the whole minibatch.
        share: (i, n): the i-th (from 0) of n equal blocks of consecutive rows; n must divide the number of
            rows per minibatch.

    Returns:
        The share's rows from all minibatches, concatenated; its random columns for each minibatch; and the number
        of its rows in each minibatch.
    """
    part, parts = share
    size = len(batch["valid"]) // (len(drawn) * parts)
    own = slice(part * size, (part + 1) * size)
    rows = np.arange(len(drawn) * parts * size).reshape(len(drawn), -1)[:, own].ravel()
    columns = [{name: each if len(each) == 1 else each[own] for name, each in one.items()} for one in drawn]
    return batch.map(itemgetter(rows)), columns, size


def split_sums(
    policy: Policy, objectives: Iterable[Objective], sums: Tensor, statistics: Mapping[str, Sequence[str]]
) -> list[tuple[Objective, Tensor]]:
    """Splits one vector of concatenated gradients and statistics into the parts of each loss.

    Args:
        policy: Policy whose loss is differentiated.
        objectives: The learner's losses, in order.
        sums: Concatenated gradient sums of the losses that `statistics` names.
        statistics: Names of the statistics in each loss's sum, by name of its objective.
    """
    present = [objective for objective in objectives if objective.name in statistics]
    sizes = []
    for objective in present:
        _, size = objective.range_in(policy.parameters)
        sizes.append(size + num_assigned(policy, objective) + len(statistics[objective.name]) + 1)
    return list(zip(present, torch.split(sums, sizes), strict=True))
