"""Looks for numbers that are not finite, once per iteration, and keeps what led to them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlrun.checkpoint.format import Content
from rlrun.errors import TrainingFailed
from rlrun.rollout.rollout import DEFAULT_POLICY

if TYPE_CHECKING:
    from rlrun.algorithm import Algorithm

REMEDIES = (
    "Usual remedies: a lower lr, a smaller max_grad_norm, normalize_observations or normalize_rewards or clip_rewards "
    "where those numbers are large, and a look at whether the env itself returns NaN or infinity"
)


class Diverged(TrainingFailed):
    """Training has led to numbers that are not finite."""


class DivergenceGuard:
    """Remembers an algorithm's parameters before each iteration."""

    def __init__(self, algorithm: Algorithm[Any]) -> None:
        """Watches an algorithm that has been started."""
        self._algorithm = algorithm
        self.remember()

    def remember(self) -> None:
        """Takes the present parameters for those before the next iteration."""
        trainee = self._algorithm.trainee
        self._flat, self._moments = trainee.learner.flat(), dict(trainee.filters.moments)

    def problem(self, result: Mapping[str, Any]) -> str | None:
        """Names the first number that is not finite, or returns None.

        Args:
            result: What the algorithm returned for the iteration.
        """
        for name, value in result.items():
            if name.startswith("learner/") and isinstance(value, float) and not math.isfinite(value):
                return f"{name} is {value}"
        return None if self._algorithm.learner.is_finite() else "a parameter of the policy is not finite"

    def content(self, spec: dict[str, Any]) -> Content:
        """Returns a checkpoint with the parameters and filters from before the iteration, the rest from after it.

        Its state holds the batch that was learned from last as `last_batch`.

        Args:
            spec: The resolved trial.
        """
        content = self._algorithm.content(spec)
        batch = self._algorithm.learner.last_batch
        parameters = self._algorithm.learner.policy.parameters
        learner = {
            **content.state["learner"],
            "filters": {name: moments.state() for name, moments in self._moments.items()},
        }
        return replace(
            content,
            tensors={**content.tensors, f"policies/{DEFAULT_POLICY}": parameters.named(self._flat)},
            state={**content.state, "learner": learner, "last_batch": {} if batch is None else dict(batch)},
        )
