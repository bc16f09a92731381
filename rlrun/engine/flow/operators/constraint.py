"""Lagrangian of a constrained MDP: advantages of rewards and costs, weighted by a multiplier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow, StatefulOperator
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.reward_streams.streams import MULTIPLIER

if TYPE_CHECKING:
    from rlrun.engine.reward_streams.settings import ConstraintConfig


class LagrangianAdvantages(StatefulOperator):
    """Replaces `advantages` A by (A - m * C) / (1 + m), with the advantages C of costs and the multiplier m.

    The multiplier rises while the cost of an episode is above the limit, and falls, to 0 at the least, while it is
    below: m' = max(0, m + rate * (J - limit)). J is the sum of costs since the last update divided by the number of
    episodes that ended since then; if none ended, there is no update.

    Args:
        column: Column of the costs.
        limit: Limit of an episode's mean cost.
        rate: Step of the multiplier per unit of cost.

    Source:
        Ray, Achiam, Amodei, "Benchmarking safe exploration in deep reinforcement learning", 2019; the divisor is
        that of Stooke et al., arXiv:2007.03964.
    """

    def __init__(self, column: str, limit: float, rate: float) -> None:
        self.column = column
        self.limit = limit
        self.rate = rate
        self.multiplier = 0.0
        self._paid = 0.0
        self._ended = 0

    @override
    def settings(self) -> dict[str, Any]:
        return {"column": self.column, "limit": self.limit, "rate": self.rate}

    declared_metrics = (MULTIPLIER,)

    @override
    def metrics(self) -> dict[str, float]:
        """Returns the current Lagrange multiplier."""
        return {MULTIPLIER.name: self.multiplier}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Updates the multiplier, and returns the batch with the Lagrangian's advantages."""
        valid = item["valid"]
        self._paid += float(item[self.column].sum(where=valid, dtype=np.float64))
        self._ended += int(np.count_nonzero((item["terminateds"] | item["truncateds"]) & valid))
        if self._ended:
            excess = self._paid / self._ended - self.limit
            self.multiplier = max(0.0, self.multiplier + self.rate * excess)
            self._paid, self._ended = 0.0, 0
        multiplier = np.float32(self.multiplier)
        advantages = (item["advantages"] - multiplier * item["cost_advantages"]) / (1 + multiplier)
        return SampleBatch(item, advantages=advantages)

    @override
    def state(self) -> dict[str, Any]:
        """Returns the multiplier, and the costs and episodes since its last update."""
        return {"multiplier": self.multiplier, "paid": self._paid, "ended": self._ended}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self.multiplier = float(state["multiplier"])
        self._paid, self._ended = float(state["paid"]), int(state["ended"])


def with_constraint(learned: Flow[Any], bound: ConstraintConfig, algorithm: str) -> Flow[Any]:
    """Places the Lagrangian of a constraint in an algorithm's dataflow, after `ConcatBatches`.

    Args:
        learned: The algorithm's dataflow.
        bound: Settings of the constraint.
        algorithm: Name of the algorithm, for messages.

    Raises:
        UsageError: The dataflow does not contain exactly one `ConcatBatches`.
    """
    placed = learned.with_step_after(
        ConcatBatches, LagrangianAdvantages(bound.column, bound.limit, bound.multiplier_lr)
    )
    if placed is None:
        raise UsageError(
            f"constraint: its multiplier follows ConcatBatches, which {algorithm} does not have in one place: leave "
            "constraint out"
        )
    return placed
