"""Divergence detection: finds NaN or infinity after an iteration, and saves the parameters from before it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlrun.engine.checkpoint.format import Content, write_checkpoint
from rlrun.engine.learner.learner import last_batch_of
from rlrun.engine.messages.errors import RlrunError, TrainingFailed
from rlrun.engine.training.save.sections import section

if TYPE_CHECKING:
    from rlrun.engine.training.training import Training

DIVERGED = "training has diverged"
"""Prefix of a diverged trial's error message."""

OWN_LOSS = ", or the loss itself, such as the log of a negative number"
"""Text added to the remedies for the user's own algorithms."""

REMEDIES = (
    "Try a lower lr or a smaller max_grad_norm; for large observations or rewards, normalize_observations, "
    "normalize_rewards, reward_scale or clip_rewards. Also check whether the env itself returns NaN or infinity"
)


_OF_POLICY = re.compile(r"^policies/[^/]+/")


class Diverged(TrainingFailed):
    """Error for training that has diverged, that is, a loss statistic or parameter is NaN or infinite."""


class DivergenceGuard:
    """Checks for divergence after each iteration, and keeps a copy of the parameters from before the iteration.

    Args:
        training: A started `Training`.
    """

    def __init__(self, training: Training) -> None:
        self._training = training
        self.remember()

    @property
    def _runs_users_algorithm(self) -> bool:
        return not all(each.is_built_in() for each in self._training.description.policies.algorithms.values())

    def remember(self) -> None:
        """Copies the current parameters, before an iteration starts."""
        self._before = {
            trainee.name: (trainee.learner.flat(), trainee.filters.state())
            for trainee in self._training.running.trainees
        }

    def refuse_divergence(self, result: Mapping[str, Any], spec: dict[str, Any], failed: Path) -> None:
        """Raises `Diverged` on NaN or infinity, after saving the parameters from before the iteration to a checkpoint.

        Args:
            result: Result of the iteration.
            spec: The resolved trial.
            failed: Directory for the checkpoint.

        Raises:
            Diverged: A loss statistic or a parameter is not finite.
        """
        problem = self.problem(result)
        if problem is None:
            return
        saved = ""
        with suppress(OSError, RlrunError):  # the divergence must be reported even if this fails
            write_checkpoint(failed, self.content(spec))
            saved = f" The parameters from before that iteration are in {failed}."
        raise Diverged(
            f"{DIVERGED}: {problem} at iteration {result['iteration']} ({result['env_steps']} env steps).{saved} "
            f"{REMEDIES}{OWN_LOSS if self._runs_users_algorithm else ''}"
        )

    def problem(self, result: Mapping[str, Any]) -> str | None:
        """Message about the first non-finite loss statistic or parameter; None if all are finite.

        Args:
            result: Result of the iteration.
        """
        for name, value in result.items():
            own = _OF_POLICY.sub("", name)
            if own.startswith("learner/") and isinstance(value, float) and not math.isfinite(value):
                return f"{name} is {value}"
        diverged = [trainee.name for trainee in self._training.running.trainees if not trainee.learner.is_finite()]
        if not diverged:
            return None
        whose = f" {diverged[0]}" if len(self._training.running.trainees) > 1 else ""
        return f"a parameter of the policy{whose} is not finite"

    def content(self, spec: dict[str, Any]) -> Content:
        """Content of the checkpoint after divergence: parameters from before the iteration, other state from after it.

        The state includes the learner's last batch as `last_batch`, by policy if there are several.

        Args:
            spec: The resolved trial.
        """
        content, trainees = self._training.content(spec), self._training.running.trainees
        tensors, sections, batches = dict(content.tensors), dict(content.state["trainees"]), {}
        for trainee in trainees:
            flat, filters = self._before[trainee.name]
            tensors[f"policies/{trainee.name}"] = trainee.policy.parameters.named(flat)
            sections[trainee.name] = {**sections[trainee.name], "filters": section("filters", filters)}
            batch = last_batch_of(trainee.learner)
            batches[trainee.name] = {} if batch is None else dict(batch)
        last = batches if len(trainees) > 1 else batches[trainees[0].name]
        return replace(content, tensors=tensors, state={**content.state, "trainees": sections, "last_batch": last})
