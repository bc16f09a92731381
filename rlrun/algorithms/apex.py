"""Ape-X DQN: many actors, replays in actors of their own, a learner that none of them waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlrun.algorithms.dqn import DQN, DQNConfig
from rlrun.algorithms.settings_distributed_replay import DistributedReplaySettings
from rlrun.config import NonNegativeFloat, Schedule, defaults
from rlrun.flow.flow import Flow
from rlrun.flow.initial_priorities import InitialPriorities
from rlrun.flow.operators import LearnResult
from rlrun.functional.exploration import EpsilonLadder
from rlrun.learning_beside import collected, learn_beside
from rlrun.rollout.worker_set import WorkerSet

if TYPE_CHECKING:
    import gymnasium

    from rlrun.policy.q import QPolicy


@defaults(
    lr=1e-4,
    minibatch_size=512,
    n_step=3,
    dueling=True,
    max_grad_norm=40.0,
    replay={"capacity": 2_000_000, "prioritized": True},
    learning_starts=50_000,
    target_update_interval=2500,
)
class ApexConfig(DistributedReplaySettings, DQNConfig):
    """Settings of Ape-X DQN (Horgan et al., arXiv:1803.00933); the paper's unless they say otherwise.

    Adam, with a learning rate of its own, takes the place of the paper's centred RMSProp. The paper has 360 workers
    with an env each; `epsilon` and `epsilon_exponent` are for any number of them.
    """

    epsilon: Schedule = 0.4
    """Probability of an action that is drawn uniformly, in the first env slot; the i-th of N slots of all workers has
    epsilon^(1 + epsilon_exponent * i / (N - 1))."""
    epsilon_exponent: NonNegativeFloat = 7.0
    """How far the env slots' probabilities are apart; 0 for one for all."""


class Apex(DQN):
    """DQN's policy and loss; only the dataflow is new.

    Workers compute the first priorities of what they collect, and explore each in their own way. Neither they nor the
    learner wait for the other: `minibatches_per_env_step` is what comes of it.
    """

    Config = ApexConfig
    config: ApexConfig

    def make_policy(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], *, seed: int
    ) -> QPolicy:
        """Returns DQN's policy, on a ladder of exploration, that tells what actions were worth."""
        policy = super().make_policy(observation_space, action_space, seed=seed)
        policy.spread, policy.records_values = EpsilonLadder(self.config.epsilon_exponent), True
        return policy

    def collect(self, workers: WorkerSet) -> Flow[Any]:
        """Fragments with priorities, as they are ready."""
        config = self.config
        return collected(workers, config.asynchrony, InitialPriorities(config.n_step, config.gamma))

    def learn(self, rollouts: Flow[Any], workers: WorkerSet) -> Flow[LearnResult]:
        """Fragments into the replay and new weights to their workers; beside that, minibatches out of it."""
        return learn_beside(rollouts, self.trainee, self.config, self.config.asynchrony, self.seed)
