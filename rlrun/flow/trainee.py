"""What operators take: a policy in training with all that belongs to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rlrun.flow.clock import Clock
from rlrun.flow.filters import Filters
from rlrun.flow.policy_lag import PolicyLag
from rlrun.policy.weights import LearningWeights, Weights

if TYPE_CHECKING:
    from rlrun.learner.learner import Learner
    from rlrun.rollout.worker_set import WorkerSet


@dataclass(frozen=True)
class Trainee:
    """What is trained by one learner.

    Attributes:
        learner: The parameters under their optimizers.
        workers: Who collects experience.
        clock: Scheduled settings and counters.
        filters: Running moments that go out with the weights.
        lag: How old the weights were that collected what was learned from.
    """

    learner: Learner
    workers: WorkerSet
    clock: Clock
    filters: Filters = field(default_factory=Filters)
    lag: PolicyLag = field(default_factory=PolicyLag)

    def weights(self, learning: LearningWeights | None = None) -> Weights:
        """Returns the parameters and statistics as they are now, for who acts.

        Args:
            learning: What goes along for who learns on the acting side.
        """
        return Weights(
            self.learner.weights_version,
            self.learner.acting_flat(),
            dict(self.filters.moments),
            self.clock.env_steps,
            dict(self.clock.schedules),
            learning,
        )

    def learning_weights(self, *, with_optimizer: bool = False) -> Weights:
        """Returns the same for who learns on the acting side as well.

        Args:
            with_optimizer: Whether the optimizer's state goes along.
        """
        learner = self.learner
        optimizer = learner.optimizer_state() if with_optimizer else {}
        return self.weights(LearningWeights(learner.flat(), optimizer, learner.target()))
