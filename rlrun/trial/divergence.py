"""Looks for numbers that are not finite, once per iteration, and keeps what led to them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlrun.checkpoint.format import Content, write_checkpoint
from rlrun.errors import RlrunError, TrainingFailed
from rlrun.training.checkpointing import section

if TYPE_CHECKING:
    from rlrun.training.training import Training

REMEDIES = (
    "Usual remedies: a lower lr, a smaller max_grad_norm, normalize_observations or normalize_rewards or clip_rewards "
    "where those numbers are large, and a look at whether the env itself returns NaN or infinity"
)


class Diverged(TrainingFailed):
    """Training has led to numbers that are not finite."""


class DivergenceGuard:
    """Remembers a training's parameters before each iteration.

    Args:
        training: A training that has been started.
    """

    def __init__(self, training: Training) -> None:
        self._training = training
        self.remember()

    def remember(self) -> None:
        """Keeps the present parameters as those before the next iteration."""
        trainee = self._training.trainee
        self._flat, self._filters = trainee.learner.flat(), trainee.filters.state()

    def refuse_divergence(self, result: Mapping[str, Any], spec: dict[str, Any], failed: Path) -> None:
        """Ends a trial whose numbers are not finite any more, and keeps what led to that.

        Args:
            result: What the training returned for the iteration.
            spec: The resolved trial.
            failed: Where the checkpoint goes.

        Raises:
            Diverged: If one is not.
        """
        problem = self.problem(result)
        if problem is None:
            return
        with suppress(OSError, RlrunError):  # the divergence is what the user must hear of, whatever else goes wrong
            write_checkpoint(failed, self.content(spec))
        raise Diverged(
            f"training has diverged: {problem} at iteration {result['iteration']} ({result['env_steps']} env steps). "
            f"The parameters before that iteration are in {failed}. {REMEDIES}"
        )

    def problem(self, result: Mapping[str, Any]) -> str | None:
        """Names the first number that is not finite, or returns None.

        Args:
            result: What the training returned for the iteration.
        """
        for name, value in result.items():
            if name.startswith("learner/") and isinstance(value, float) and not math.isfinite(value):
                return f"{name} is {value}"
        return None if self._training.trainee.learner.is_finite() else "a parameter of the policy is not finite"

    def content(self, spec: dict[str, Any]) -> Content:
        """Returns a checkpoint with the parameters and filters from before the iteration, the rest from after it.

        Its state holds the batch that was learned from last as `last_batch`.

        Args:
            spec: The resolved trial.
        """
        content, trainee = self._training.content(spec), self._training.trainee
        batch = trainee.learner.last_batch
        own = {**content.state["trainees"][trainee.name], "filters": section("filters", self._filters)}
        before = trainee.policy.parameters.named(self._flat)
        return replace(
            content,
            tensors={**content.tensors, f"policies/{trainee.name}": before},
            state={
                **content.state,
                "trainees": {**content.state["trainees"], trainee.name: own},
                "last_batch": {} if batch is None else dict(batch),
            },
        )
