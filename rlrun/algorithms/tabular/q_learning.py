"""Tabular Q-learning, for envs with Discrete observations and actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.algorithms.settings.without_network import WithoutNetworkConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow, Operator
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.weights import BroadcastWeights, MergeFilters
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.learner.learner import load_update
from rlrun.engine.settings.config import Schedule, defaults
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.algorithms.tabular.policy import TabularPolicy
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.learner.objective import Objective
    from rlrun.engine.policy.policy import Policy


@defaults(lr=0.1, rollout_fragment_length=8)
class QLearningConfig(WithoutNetworkConfig):
    """Settings of Q-learning (Watkins and Dayan, "Q-learning", 1992)."""

    initial_value: float = 0.0
    """Initial Q value of every action; a value above any return is optimistic initialization."""
    epsilon: Schedule = 0.1
    """Probability of a uniformly random action."""


class QLearning(Algorithm[QLearningConfig]):
    """Tabular Q-learning (Watkins and Dayan, 1992): one TD update of the table per step."""

    Config = QLearningConfig
    acts_in = ("Discrete",)
    config: QLearningConfig
    learns_in_worlds = False

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        return UpdateTable.declared_metrics

    @override
    def policy(self, spaces: Spaces, seed: int) -> TabularPolicy:
        """Creates a Q table with uniform initial values."""
        from rlrun.algorithms.tabular.policy import TabularPolicy

        return TabularPolicy(*spaces, initial_value=self.config.initial_value, schedule="epsilon")

    @override
    def objectives(self, policy: Policy) -> list[Objective]:
        return []

    @override
    def learn(self, fragments: Flow[SampleBatch], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that updates the Q table with each step of all workers and broadcasts the table."""
        return (
            fragments.combine(ConcatBatches(self.config.env_steps_per_update, exact=True))
            .for_each(UpdateTable(trainee, self.config.gamma))
            .for_each(MergeFilters(trainee))
            .for_each(BroadcastWeights(trainee))
        )


class UpdateTable(Operator):
    """Tabular Q-learning update: adds lr times the TD error r + gamma max Q(s', a') - Q(s, a) to Q(s, a) for each step.

    Steps are ordered by time, then by env. Terminated episodes do not bootstrap; truncated ones do.

    Source:
        Watkins and Dayan, "Q-learning", 1992, eq. 1.
    """

    learns = True

    def __init__(self, trainee: Trainee, gamma: float) -> None:
        self.trainee = trainee
        self.gamma = gamma
        self._errors = 0.0
        self._steps = 0

    @override
    def settings(self) -> dict[str, Any]:
        return {"gamma": self.gamma}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        learner, valid = self.trainee.learner, item["valid"]
        policy: TabularPolicy = self.trainee.policy  # type: ignore[assignment]  # the policy of tabular algorithms
        self.trainee.lag.add(learner.weights_version, item["weights_version"][valid])
        lr = self.trainee.clock.value("lr")
        flat = learner.flat()
        table, states = flat.reshape(policy.shape), item["obs"] - policy.start
        columns = (states[:-1], item["actions"], item["rewards"], states[1:], item["terminateds"])
        for state, action, reward, following, ended in zip(*(each[valid].tolist() for each in columns), strict=True):
            target = reward if ended else reward + self.gamma * float(table[following].max())
            error = target - float(table[state, action])
            table[state, action] += lr * error
            self._errors += abs(error)
            self._steps += 1
        load_update(learner, flat)
        return item

    declared_metrics = (Metric("table/td_error", "", "Mean absolute TD error of this iteration's steps", mode="min"),)

    @override
    def metrics(self) -> dict[str, float]:
        mean = self._errors / max(self._steps, 1)
        self._errors, self._steps = 0.0, 0
        return {"table/td_error": mean}
