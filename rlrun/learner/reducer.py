"""Reducers: how learners combine their gradients into one update (torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from torch import Tensor

from rlrun.learner.objective import Objective
from rlrun.learner.optimizers import OptimizerState
from rlrun.learner.update import apply_sum
from rlrun.policy.policy import Policy


class Reducer(Protocol):
    """Updates a learner's parameters by the gradient over all learners; a single learner uses `apply_sum`.

    Attributes:
        owns_optimizer: Whether the optimizer is in other processes. The learner then has no optimizer state, and passes
            means and the number of steps instead of sums, which is bit for bit the same for a single learner.
    """

    owns_optimizer: bool

    def __call__(
        self,
        policy: Policy,
        objective: Objective,
        flat: Tensor,
        state: OptimizerState,
        total: Tensor,
        scheduled: Mapping[str, Tensor],
    ) -> Tensor:
        """Updates the parameters; see `apply_sum`.

        Args:
            policy: The policy.
            objective: The objective whose parameters are updated.
            flat: All parameters [P]; changed in place.
            state: The optimizer's state; changed in place.
            total: This learner's gradient sum.
            scheduled: Settings that change over a run, each [].

        Returns:
            The mean statistics over all learners, then the norm of the mean gradient if parameters are updated.
        """


class GradientAllReduce:
    """Sums the gradients over all learners, each of which updates its own copy of the parameters.

    Args:
        all_reduce: Returns the sum of a vector over all learners.
    """

    owns_optimizer = False

    def __init__(self, all_reduce: Callable[[Tensor], Tensor]) -> None:
        self._all_reduce = all_reduce

    def __call__(
        self,
        policy: Policy,
        objective: Objective,
        flat: Tensor,
        state: OptimizerState,
        total: Tensor,
        scheduled: Mapping[str, Tensor],
    ) -> Tensor:
        """Updates the parameters; see `Reducer`."""
        return apply_sum(policy, objective, flat, state, self._all_reduce(total), scheduled)
