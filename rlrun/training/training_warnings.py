"""What keeps a training from learning without anything that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlrun.flow.policy_workers import PolicyWorkers


class TrainingWarnings:
    """Announces once that workers never act with what was learned.

    Args:
        announce: Called with a sentence.
        workers: Who collects.
    """

    def __init__(self, announce: Callable[[str], None], workers: PolicyWorkers) -> None:
        self._announce = announce
        self._workers = workers
        self._sendings = self._sgd_steps = 0
        self._looks_for_weights = True

    def begin(self, sendings: int, sgd_steps: int, *, is_resumed: bool) -> None:
        """Is told how the training begins, or goes on.

        A dataflow may send weights once in many batches, so that one which goes on sends none for a while. Whether it
        sends any was seen when the run was new.

        Args:
            sendings: How often weights have been sent without the dataflow.
            sgd_steps: How often was learned by then.
            is_resumed: Whether it goes on from an iteration.
        """
        self._sendings, self._sgd_steps = sendings, sgd_steps
        self._looks_for_weights = not is_resumed

    def look(self, sgd_steps: int) -> None:
        """Looks at a training after an iteration.

        Args:
            sgd_steps: Minibatches learned from so far.
        """
        if self._looks_for_weights and sgd_steps > self._sgd_steps:
            self._looks_for_weights = False
            workers = self._workers
            if workers.has_source and not workers.learns_on_workers and workers.sendings <= self._sendings:
                self._announce(
                    "the learner learns, but its dataflow sends no weights: the workers go on acting with the first "
                    "ones. `learn` usually ends with .for_each(BroadcastWeights(trainee))"
                )
