"""Weights of recorded actions, computed from their advantages, for MARWIL."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch, concatenated_rows
from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.policy.actor_critic_outputs import ActorCriticOutputs

LEAST_NORM = 1e-8
"""Added to the norm of advantages before the division."""


def values_of(outputs: ActorCriticOutputs, batch: SampleBatch) -> Tensor:
    """State values V(s) from actor-critic outputs, [rows, steps]."""
    return outputs.values


class WeighByAdvantage(StatefulOperator):
    """Adds the columns `value_targets` and `weights` = min(exp(beta A / c), max_weight) to a minibatch with returns.

    The advantage is A = R + d V(s_T) - V(s), where R is the return until the final observation s_T, and d is the
    discount of its value: 0 after a termination. The running mean square c^2 of advantages is updated with each
    minibatch: c^2 <- c^2 + rate (mean A^2 - c^2).

    Source:
        Wang et al., "Exponentially Weighted Imitation Learning for Batched Historical Data" (MARWIL), NeurIPS 2018,
        section 3 and appendix. The bound on the weights follows Peng et al., arXiv:1910.00177, section 5.

    Args:
        trainee: The policy in training, whose value estimates are used.
        beta: Strength of the weighting; 0 for equal weights.
        start: Initial value of c^2; None for the mean square of the first minibatch's advantages.
        rate: Update rate of c^2.
        max_weight: Maximum weight.
    """

    def __init__(self, trainee: Trainee, *, beta: float, start: float | None, rate: float, max_weight: float) -> None:
        self.trainee = trainee
        self.beta = beta
        self.rate = rate
        self.max_weight = max_weight
        self.mean_square = start
        self._effective = self._clipped = math.nan

    @override
    def settings(self) -> dict[str, Any]:
        return {"beta": self.beta}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns `obs`, `actions` and `valid` with the weights and targets, [S, 1]."""
        own = SampleBatch({name: item[name] for name in ("obs", "actions", "valid")})
        targets: NDArray[np.float32] = item["rewards"]
        if item["discounts"].any():
            values, final = np.split(self._values(concatenated_rows([own, SampleBatch(own, obs=item["next_obs"])])), 2)
            targets = targets + item["discounts"] * final
        else:
            values = self._values(own)
        return SampleBatch(own, weights=self.weights(targets - values), value_targets=targets)

    def _values(self, rows: SampleBatch) -> NDArray[np.float32]:
        values: NDArray[np.float32] = self.trainee.learner.evaluate(values_of, rows)
        return values

    def weights(self, advantages: NDArray[np.float32]) -> NDArray[np.float32]:
        """Weights [rows, 1] for a minibatch's advantages [rows, 1], which first update the running mean square."""
        found = float(np.square(advantages, dtype=np.float64).mean())
        before = found if self.mean_square is None else self.mean_square
        self.mean_square = before + self.rate * (found - before)
        exponents, bound = self.beta * advantages / (LEAST_NORM + self.mean_square**0.5), math.log(self.max_weight)
        weights: NDArray[np.float32] = np.exp(np.minimum(exponents, bound))
        self._clipped = float((exponents >= bound).mean())
        self._effective = float(weights.mean() ** 2 / np.square(weights).mean())
        return weights.astype(np.float32, copy=False)

    declared_metrics = (
        Metric("advantage_norm", "", "Running root mean square of the advantages, used to normalize them"),
        Metric("clipped", "", "Fraction of actions in the last minibatch with the maximum weight, max_weight"),
        Metric("effective", "", "Effective fraction of the last minibatch: squared mean weight / mean squared weight"),
    )

    @override
    def metrics(self) -> dict[str, float]:
        norm = math.nan if self.mean_square is None else self.mean_square**0.5
        return {"advantage_norm": norm, "clipped": self._clipped, "effective": self._effective}

    @override
    def state(self) -> dict[str, Any]:
        """State for a checkpoint: running mean square of advantages, None before the first minibatch."""
        return {"mean_square": self.mean_square}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self.mean_square = state["mean_square"]
