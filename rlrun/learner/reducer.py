"""How learners that learn together make one gradient of all of theirs (torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from torch import Tensor

from rlrun.learner.objective import Objective
from rlrun.learner.optimizers import OptimizerState
from rlrun.learner.update import apply_sum
from rlrun.policy.policy import Policy


class Reducer(Protocol):
    """Moves a learner's parameters along the gradient of all learners; `apply_sum` does so for a learner alone.

    Attributes:
        owns_optimizer: Whether the optimizer is elsewhere. The learner then keeps no state of it and hands over means
            and the number of their steps, with which one learner does to the last bit what it would do alone.
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
        """Moves the parameters; see `apply_sum`.

        Args:
            policy: The policy.
            objective: Whose parameters move.
            flat: All parameters [P]; changed in place.
            state: The optimizer's state; changed in place.
            total: This learner's gradient sum.
            scheduled: Settings that change over a run, each [].

        Returns:
            The mean statistics over all learners, and the norm of the mean gradient last where parameters move.
        """


class GradientAllReduce:
    """Adds the gradient sums up over all learners, each of which moves its own copy of the parameters.

    Args:
        add_up: Adds up one vector over all learners; each gets the sum.
    """

    owns_optimizer = False

    def __init__(self, add_up: Callable[[Tensor], Tensor]) -> None:
        self._add_up = add_up

    def __call__(
        self,
        policy: Policy,
        objective: Objective,
        flat: Tensor,
        state: OptimizerState,
        total: Tensor,
        scheduled: Mapping[str, Tensor],
    ) -> Tensor:
        """Moves the parameters; see `Reducer`."""
        return apply_sum(policy, objective, flat, state, self._add_up(total), scheduled)
