"""What operators take: a policy in training with all that belongs to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rlrun.flow.clock import Clock
from rlrun.flow.filters import Filters
from rlrun.flow.policy_lag import PolicyLag
from rlrun.policy.weights import Weights

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

    def weights(self) -> Weights:
        """Returns the parameters and statistics as they are now, for who acts."""
        return Weights(
            self.learner.weights_version,
            self.learner.flat(),
            dict(self.filters.moments),
            self.clock.env_steps,
            dict(self.clock.schedules),
        )
