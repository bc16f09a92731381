"""Value iteration: dynamic programming in a finite env with a known model, run by a worker that takes no env steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from rlrun.algorithms.settings.without_network import WithoutNetworkConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.envs.env_model import finite_mdp
from rlrun.engine.flow.flow import Flow, Operator
from rlrun.engine.flow.operators.weights import BroadcastWeights
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.functional.returns import Doubles
from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.learner.learner import load_update
from rlrun.engine.rollout.rollout import Rollout
from rlrun.engine.rollout.worker import Orders
from rlrun.engine.rollout.worker_config import WorkerConfig
from rlrun.engine.settings.config import defaults, fixed
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.algorithms.tabular.policy import TabularPolicy
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.learner.objective import Objective
    from rlrun.engine.policy.policy import Policy


@defaults(num_envs_per_worker=1)
@fixed("the algorithm does not step an env", rollout_fragment_length=None, min_env_steps_per_iteration=0)
@fixed("one process sweeps over all states", num_workers=0)
@fixed("values are replaced by their backups, without a step size", lr=1.0)
@fixed("exact values refer to unscaled rewards", normalize_rewards=False, reward_scale=1.0, clip_rewards=None)
class ValueIterationConfig(WithoutNetworkConfig):
    """Settings of value iteration (Bellman, "Dynamic Programming", 1957); with a gamma of 1, values may diverge."""


class ValueIteration(Algorithm[ValueIterationConfig]):
    """Value iteration: Bellman optimality backups of all states in sweeps (Bellman, 1957)."""

    Config = ValueIterationConfig
    acts_in = ("Discrete",)
    config: ValueIterationConfig
    worker_factory = "rlrun.algorithms.tabular.value_iteration:SweepingWorker"
    learns_in_worlds = False
    clock_unit = "sgd_steps"

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return LoadTable.declared_metrics

    @override
    def policy(self, spaces: Spaces, seed: int) -> TabularPolicy:
        """Creates a table of action values, initially 0."""
        from rlrun.algorithms.tabular.policy import TabularPolicy

        return TabularPolicy(*spaces, initial_value=0.0, schedule=None)

    @override
    def worker_config(self, config: WorkerConfig) -> SweepingWorkerConfig:

        return SweepingWorkerConfig(**vars(config), gamma=self.config.gamma)

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        return []

    @override
    def learn(self, items: Flow[Sweep], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that copies the action values of each sweep to the Q table and broadcasts the table."""
        return items.for_each(LoadTable(trainee)).for_each(BroadcastWeights(trainee))


class LoadTable(Operator):
    """Copies the action values computed by a sweep of value iteration into the learner's Q table."""

    learns = True

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee
        self._change = 0.0

    @override
    def __call__(self, item: Sweep) -> Sweep:
        learner = self.trainee.learner
        load_update(learner, item.q.astype(np.float32).ravel())
        self._change = item.change
        return item

    declared_metrics = (Metric("table/change", "", "Largest change of a state's value in the last sweep", mode="min"),)

    @override
    def metrics(self) -> dict[str, float]:
        return {"table/change": self._change}


@dataclass(frozen=True, kw_only=True)
class SweepingWorkerConfig(WorkerConfig):
    """Config of a worker that runs sweeps of value iteration; picklable.

    Attributes:
        gamma: Discount factor.
    """

    gamma: float


@dataclass(frozen=True)
class Sweep:
    """Result of one sweep of Bellman backups over all states.

    Attributes:
        q: Action values after the sweep, [S, A].
        change: Largest change of a state's value.
    """

    q: Doubles
    change: float


class SweepingWorker:
    """Worker that runs sweeps of Bellman backups over all states instead of collecting rollouts.

    It implements `rlrun.engine.rollout.worker.Worker`.
    """

    def __init__(self, config: SweepingWorkerConfig) -> None:
        self.config = config
        (self.policy,) = config.behaviors
        self.mdp = finite_mdp(config.env)
        self.values: Doubles = np.zeros(len(self.mdp.starts))
        self._fragment = config.first_fragment

    def follow(self, orders: Orders) -> None:
        """Ignores broadcast weights, since a sweep needs no policy."""

    def sample(self) -> Rollout:
        """Runs one sweep of Bellman optimality backups over all states."""
        q = self.mdp.backup(self.values, self.config.gamma)
        values = q.max(-1)
        sweep = Sweep(q, float(np.abs(values - self.values).max()))
        self.values = values
        self._fragment += 1
        return Rollout(self.config.worker_index, self._fragment - 1, {self.policy: sweep}, env_steps=0)

    def state(self) -> dict[str, Any]:
        """State for a checkpoint: action values and number of sweeps."""
        return {"fragment": self._fragment, "values": self.values.copy(), "unsaved": []}

    def place(self) -> dict[str, Any]:
        """State from which a lost worker is restarted, identical to `state()`."""
        return self.state()

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Restores the worker from `state()`."""
        self._fragment = as_count(state["fragment"])
        self.values[:] = state["values"]
        return 0

    def close(self) -> None:
        """Does nothing, since there are no envs to close."""
