"""Acting and evaluating with a trainee's present weights, apart from the rollout workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlrun.data.tree import map_tree
from rlrun.functional.seeding import generator

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee
    from rlrun.policy.behavior import BehaviorPolicy


class ActingPolicy:
    """A behavior policy of its own with a trainee's present weights and filters.

    Args:
        trainee: Whose policy acts.

    Attributes:
        trainee: Whose policy acts.
    """

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee
        self._behavior: BehaviorPolicy | None = None
        self._sgd_steps = -1
        self._draws = generator(trainee.seed, "act")

    def refresh(self) -> None:
        """Has the next call load the weights anew, as they were changed by something else than SGD."""
        self._sgd_steps = -1

    def behavior(self) -> BehaviorPolicy:
        """Returns the behavior policy with the present weights."""
        learner = self.trainee.learner
        if self._behavior is None:
            self._behavior = self.trainee.policy.behavior()
        if self._sgd_steps != learner.sgd_steps:
            self._behavior.load(self.trainee.weights())
            self._sgd_steps = learner.sgd_steps
        return self._behavior

    def act(self, observation: Any, *, explore: bool, episode_start: bool) -> Any:
        """Returns the action for one observation.

        Args:
            observation: What the env shows.
            explore: Whether the action is drawn instead of the likeliest one.
            episode_start: Whether an episode begins with it, which only recurrent policies need to know.
        """
        batch = map_tree(lambda leaf: np.asarray(leaf)[None], observation)
        behavior = self.behavior()
        behavior.begin_episodes(np.array([episode_start]))
        actions = behavior.actions(batch, self._draws if explore else None)
        return map_tree(lambda leaf: leaf[0], actions)
