"""A policy in training, with its learner, workers, observation statistics, step counters and policy lag."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.moments import Moments, merge_named
from rlrun.engine.policy.weights import LearningWeights, Weights

if TYPE_CHECKING:
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.flow.clock import Clock
    from rlrun.engine.flow.policy_workers import PolicyWorkers
    from rlrun.engine.learner.learner import Learner, LearnerFactory
    from rlrun.engine.nn.model_config import ModelConfig
    from rlrun.engine.policy.policy import Policy
    from rlrun.engine.replay.replay import ReplayFactory
    from rlrun.engine.worlds.world_view import WorldView


class Filters:
    """Running means and variances that normalize observations (`observations/<part>`) and scale rewards (`returns`).

    Attributes:
        moments: Count, mean and variance of all data so far, by name.
        is_frozen: Whether new data no longer changes the statistics of observations.
    """

    def __init__(self) -> None:
        self.moments: dict[str, Moments] = {}
        self.is_frozen = False

    def merge(self, deltas: Mapping[str, Moments]) -> None:
        """Merges statistics of new data, collected by workers, into the running statistics."""
        if self.is_frozen:
            deltas = {name: delta for name, delta in deltas.items() if not name.startswith("observations/")}
        merge_named(self.moments, deltas)

    def state(self) -> dict[str, Any]:
        """Returns the running means and variances, for checkpoints."""
        return {name: moments.state() for name, moments in self.moments.items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the running statistics from the result of `state()`."""
        self.moments = {name: Moments.from_state(moments) for name, moments in state.items()}


class PolicyLag:
    """Mean and maximum policy lag: the number of updates by which the acting weights were behind the learner's."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._steps = 0
        self._max = 0

    def add(self, version: int, versions: NDArray[Any]) -> None:
        """Adds the policy lag of each step in a batch.

        Args:
            version: Version of the learner's weights, before it learns from the batch.
            versions: Version of the weights that acted at each step of the batch, an array of any shape.
        """
        lags = version - np.asarray(versions)
        self._sum += float(lags.sum())
        self._steps += lags.size
        self._max = max(self._max, int(lags.max(initial=0)))

    def take(self) -> Mapping[str, float | None]:
        """Returns mean and maximum of the policy lag since the last call, and resets them; None without steps."""
        taken = {
            "policy_lag_mean": self._sum / self._steps if self._steps else None,
            "policy_lag_max": self._max if self._steps else None,
        }
        self._sum, self._steps, self._max = 0.0, 0, 0
        return taken


@dataclass(frozen=True)
class Trainee:
    """A policy in training: learner, rollout workers, observation statistics and step counters.

    `learner`, `policy` and `spaces` are created on first access. Operators access them only when items are pulled, so
    that a dataflow can be printed without them.

    Attributes:
        name: Name of the policy, unique in the training run.
        model: Settings of the policy's networks.
        seed: Root seed of the trial.
        fragment_length: Steps of each env slot in one fragment, T.
        learner_factory: Picklable function that creates a learner, for other processes and for workers that learn.
        start_learner: Function that returns the learner, which is started by the first call.
        get_spaces: Function that returns the observation and action spaces.
        workers: Access to the workers that collect the policy's experience.
        clock: Step counters and schedules.
        make_replay: Function that creates an empty replay buffer for the policy's fragments.
        filters: Running statistics of observations and returns.
        lag: Policy lag of the steps used for learning.
        is_sparse: Whether fragments may have many empty rows, in slots without an agent; minibatches then omit them.
        make_goals: Factory of the env's `GoalFunctions`, for hindsight replay; None in multi-agent worlds.
        world: Properties of the multi-agent env (state space, number of agents, ...); None for a single-agent env.
    """

    name: str
    model: ModelConfig
    seed: int
    fragment_length: int
    learner_factory: LearnerFactory
    start_learner: Callable[[], Learner]
    get_spaces: Callable[[], Spaces]
    workers: PolicyWorkers
    clock: Clock
    make_replay: ReplayFactory
    filters: Filters = field(default_factory=Filters)
    lag: PolicyLag = field(default_factory=PolicyLag)
    is_sparse: bool = False
    make_goals: Callable[[], Any] | None = None
    world: WorldView | None = None

    @property
    def learner(self) -> Learner:
        """The learner, which holds the policy's parameters and their optimizers; created on first access."""
        return self.start_learner()

    @property
    def policy(self) -> Policy:
        """The policy as losses use it: computes network outputs for given parameters; created on first access."""
        return self.learner.policy

    @property
    def spaces(self) -> Spaces:
        """Observation and action space of the policy; read from an env on first access."""
        return self.get_spaces()

    def weights(self, *, acting: bool = True, optimizer: bool = False) -> Weights:
        """Returns the current weights for rollout workers: the acting parameters, or all parameters if workers learn.

        Args:
            acting: Whether the workers need parameters to act; a worker on the learner's device does not, since it acts
                with the learner's.
            optimizer: Whether learners on the workers also load the current optimizer state.
        """
        learner, learning = self.start_learner(), None
        if self.workers.learns_on_workers:
            state = learner.optimizer_state() if optimizer else {}
            learning = LearningWeights(learner.flat(), optimizer=state, target=learner.target())
        return Weights(
            version=learner.weights_version,
            acting=learner.acting_flat() if acting else np.zeros(0, np.float32),
            filters=dict(self.filters.moments),
            env_steps=self.clock.counts.env_steps,
            schedules={**self.clock.fixed, **self.clock.schedules},
            learning=learning,
        )
