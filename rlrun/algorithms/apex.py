"""Ape-X DQN: many actors, replays in actors of their own, a learner that none of them waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlrun.algorithms.dqn import DQN, DQNConfig
from rlrun.config import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Schedule
from rlrun.flow.flow import Flow
from rlrun.flow.initial_priorities import InitialPriorities
from rlrun.flow.operators import LearnResult
from rlrun.functional.exploration import EpsilonLadder
from rlrun.learning_beside import BesideConfig, collected, learn_beside
from rlrun.replay.replay_config import ReplayConfig
from rlrun.rollout.worker_set import WorkerSet

if TYPE_CHECKING:
    import gymnasium

    from rlrun.policy.q import QPolicy


class ApexConfig(BesideConfig, DQNConfig):
    """Settings of Ape-X DQN (Horgan et al., arXiv:1803.00933); the paper's unless they say otherwise.

    Adam takes the place of the paper's centred RMSProp. The paper has 360 workers with an env each; `epsilon` and
    `epsilon_exponent` are for any number of them.
    """

    lr: Schedule = 1e-4
    """Learning rate; not the paper's, which has another optimizer."""
    train_batch_size: PositiveInt = 512
    """Steps in a minibatch drawn from the replay."""
    n_step: PositiveInt = 3
    """Steps whose rewards are added up before the value of the next observation counts."""
    dueling: bool = True
    """Whether values are put together from the observation's value and actions' advantages (Wang et al.,
    arXiv:1511.06581); the last of model.hiddens is then there twice, once for each."""
    epsilon: Schedule = 0.4
    """Probability of an action that is drawn from all alike, in the first column; the i-th of N columns of all workers
    has epsilon^(1 + epsilon_exponent * i / (N - 1))."""
    epsilon_exponent: NonNegativeFloat = 7.0
    """How far the columns' probabilities are apart; 0 for one for all."""
    max_grad_norm: PositiveFloat | None = 40.0
    """Bound of the gradient's norm; null for none."""
    replay: ReplayConfig = ReplayConfig(capacity=2_000_000, prioritized=True)
    """The experience that is kept."""
    learning_starts: NonNegativeInt = 50_000
    """Env steps that are put by before the first minibatch is drawn."""
    target_update_interval: PositiveInt = 2500
    """Minibatches between two updates of the target network."""


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
