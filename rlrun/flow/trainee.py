"""What one learner trains: the thing that the operators of a dataflow work on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rlrun.flow.filters import Filters
from rlrun.flow.policy_lag import PolicyLag
from rlrun.policy.weights import LearningWeights, Weights

if TYPE_CHECKING:
    from rlrun.envs.spaces import Spaces
    from rlrun.flow.clock import Clock
    from rlrun.flow.policy_workers import PolicyWorkers
    from rlrun.learner.learner import Learner, LearnerFactory
    from rlrun.policy.policy import Policy
    from rlrun.worlds.world_view import WorldView


@dataclass(frozen=True)
class Trainee:
    """A policy in training: its learner, the workers that collect for it, its statistics and its clock.

    All of it can be read where a dataflow is only printed; `learner`, `policy` and `spaces` come into being when they
    are first read, so operators read them when they are pulled.

    Attributes:
        name: Its name, unique in its training.
        policy_names: The policies that act for it.
        seed: Root seed of the trial.
        fragment_length: Steps of each env slot in one fragment, T.
        learner_factory: Picklable learner factory, for processes of their own and for workers that learn.
        start_learner: Returns the learner, which is started at the first call.
        get_spaces: Returns observation and action space.
        workers: Who collects for it.
        clock: Its counters and schedules.
        filters: Its running statistics, of observations and returns.
        lag: How old the weights were that collected what it learned from.
        is_sparse: Whether its fragments may have many empty rows, of slots that no agent owns: they are left out of
            minibatches.
        world: What its world is, where there are many agents.
    """

    name: str
    policy_names: tuple[str, ...]
    seed: int
    fragment_length: int
    learner_factory: LearnerFactory
    start_learner: Callable[[], Learner]
    get_spaces: Callable[[], Spaces]
    workers: PolicyWorkers
    clock: Clock
    filters: Filters = field(default_factory=Filters)
    lag: PolicyLag = field(default_factory=PolicyLag)
    is_sparse: bool = False
    world: WorldView | None = None

    @property
    def learner(self) -> Learner:
        """Its parameters under the optimizer."""
        return self.start_learner()

    @property
    def policy(self) -> Policy:
        """The policy that the learner learns."""
        return self.learner.policy

    @property
    def spaces(self) -> Spaces:
        """Observation and action space."""
        return self.get_spaces()

    def weights(self, *, optimizer: bool = False) -> Weights:
        """Returns what acts, and learns on the workers, as of now.

        Args:
            optimizer: Whether those who learn on the workers are to go on from the present optimizer as well.
        """
        learner = self.learner
        learning = None
        if self.workers.learns_on_workers:
            state = learner.optimizer_state() if optimizer else {}
            learning = LearningWeights(learner.flat(), optimizer=state, target=learner.target())
        return Weights(
            version=learner.weights_version,
            acting=learner.acting_flat(),
            filters=dict(self.filters.moments),
            env_steps=self.clock.env_steps,
            schedules={**self.clock.fixed, **self.clock.schedules},
            learning=learning,
        )
