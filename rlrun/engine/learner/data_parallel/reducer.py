"""Gradient reducers of data-parallel learners: all-reduce or parameter servers (torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from torch import Tensor

from rlrun.engine.learner.objective import Objective
from rlrun.engine.learner.optimizers import OptimizerState
from rlrun.engine.learner.update import apply_sum
from rlrun.engine.policy.policy import Policy


class Reducer(Protocol):
    """Interface to combine the gradients of data-parallel learners and apply their average to a learner's parameters.

    Attributes:
        owns_optimizer: Whether the reducer runs the optimizer elsewhere. The learner then has no optimizer state, and
            passes means and the number of steps instead of sums, for bit-exact results with a single learner.
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
        """Updates the parameters with all learners' gradient sums; see `apply_sum`.

        Args:
            policy: The policy.
            objective: Objective whose parameters are updated.
            flat: All parameters; changed in place.
            state: The optimizer's state; changed in place.
            total: This learner's gradient sum.
            scheduled: Current values of scheduled settings (learning rate, coefficients) by name, each a scalar.

        Returns:
            Mean statistics over all learners, followed by the norm of the mean gradient if parameters are trained.
        """


class GradientAllReduce:
    """Sums gradients by all-reduce, after which each learner updates its own copy of the parameters.

    Args:
        all_reduce: Function that sums a vector over all learners.
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
        """Updates the parameters with the all-reduced gradient; see `Reducer`."""
        return apply_sum(policy, objective, flat, state, self._all_reduce(total), scheduled)
