"""Warnings about trainings that run without errors but cannot learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlrun.engine.flow.policy_workers import PolicyWorkers


class TrainingWarnings:
    """Warns if a dataflow takes SGD steps but never sends weights to the workers, which then act with old ones.

    Args:
        announce: Callback for the warning.
        workers: The policy's access to the rollout workers, which counts how often weights were sent.
    """

    def __init__(self, announce: Callable[[str], None], workers: PolicyWorkers) -> None:
        self._announce = announce
        self._workers = workers
        self._sendings = self._sgd_steps = 0
        self._looks_for_weights = True

    def begin(self, sendings: int, sgd_steps: int, *, is_resumed: bool) -> None:
        """Prepares the check when a training run starts or resumes.

        Only new runs are checked: some dataflows send weights rarely, so a resumed run may send none for a while.

        Args:
            sendings: Number of times weights were sent before the dataflow ran.
            sgd_steps: SGD steps so far.
            is_resumed: Whether the training resumes after at least one iteration.
        """
        self._sendings, self._sgd_steps = sendings, sgd_steps
        self._looks_for_weights = not is_resumed

    def look(self, sgd_steps: int) -> None:
        """Warns once, after an iteration, if SGD steps were taken but no weights were sent.

        Args:
            sgd_steps: Number of SGD steps so far.
        """
        if self._looks_for_weights and sgd_steps > self._sgd_steps:
            self._looks_for_weights = False
            workers = self._workers
            if workers.has_source and not workers.learns_on_workers and workers.sendings <= self._sendings:
                self._announce(
                    "the dataflow never sends the learner's weights to the workers, which keep acting with "
                    "the initial ones. `learn` usually ends with .for_each(BroadcastWeights(trainee))"
                )
