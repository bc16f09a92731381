"""What keeps a training from learning, or a reader from seeing that it learns, without anything that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlrun.flow.policy_workers import PolicyWorkers

EPISODELESS_STEPS = 20_000
"""Steps of each env slot after which an episode should have ended."""


class TrainingWarnings:
    """Announces each such thing once.

    Args:
        announce: Called with a sentence.
        workers: Who collects.
        env_slots: Envs of all workers together.
    """

    def __init__(self, announce: Callable[[str], None], workers: PolicyWorkers, env_slots: int) -> None:
        self._announce = announce
        self._workers = workers
        self._episodeless_steps = EPISODELESS_STEPS * env_slots
        self._sendings = self._sgd_steps = 0
        self._looks_for_weights = True
        self._looks_for_episodes = True

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

    def look(self, sgd_steps: int, env_steps: int, episodes: int) -> None:
        """Looks at a training after an iteration.

        Args:
            sgd_steps: Minibatches learned from so far.
            env_steps: Env steps so far.
            episodes: Episodes finished so far.
        """
        if self._looks_for_weights and sgd_steps > self._sgd_steps:
            self._looks_for_weights = False
            workers = self._workers
            if workers.has_source and not workers.learns_on_workers and workers.sendings <= self._sendings:
                self._announce(
                    "the learner learns, but its dataflow sends no weights: the workers go on acting with the first "
                    "ones. `learn` usually ends with .for_each(BroadcastWeights(trainee))"
                )
        if self._looks_for_episodes and (episodes or env_steps >= self._episodeless_steps):
            self._looks_for_episodes = False
            if not episodes:
                self._announce(
                    f"no episode has ended in {env_steps:,} env steps, so there are no returns to report: set "
                    "env.max_episode_steps if the env does not end episodes by itself"
                )
