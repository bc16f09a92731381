"""Ape-X DQN: many actors, replays in actors of their own, a learner that none of them waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rlrun.algorithms.dqn.dqn import DQN, DQNConfig
from rlrun.algorithms.dqn.initial_priorities import InitialPriorities
from rlrun.algorithms.dqn.q_settings import QSettings
from rlrun.algorithms.settings.distributed_replay import AsynchronyConfig, DistributedReplaySettings
from rlrun.algorithms.settings.off_policy import OffPolicyConfig
from rlrun.config import NonNegativeFloat, Schedule, defaults
from rlrun.flow.concurrently import concurrently
from rlrun.flow.flow import Flow
from rlrun.flow.operators.batch_refs import LowerProcessPriority
from rlrun.flow.operators.replay import StoreToReplay, UpdatePriorities
from rlrun.flow.operators.training import TrainOnMinibatch, UpdateTargetNetwork
from rlrun.flow.operators.weights import MergeFilters, SendWeights
from rlrun.flow.recipes.distributed_replays import distributed_replay
from rlrun.flow.sources.replay_minibatches import replay_minibatches
from rlrun.flow.sources.rollouts import RolloutMode
from rlrun.flow.trainee import Trainee
from rlrun.policy.exploration.epsilons import EpsilonLadder


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

    @property
    def q(self) -> QSettings:
        """Settings of the Q policy, whose env slots have probabilities of their own."""
        return replace(super().q, epsilon_spread=EpsilonLadder(self.epsilon_exponent), records_values=True)


class Apex(DQN):
    """DQN's policy and loss; only the dataflow is new.

    Workers compute the first priorities of what they collect, and explore each in their own way. Neither they nor the
    learner wait for the other: `minibatches_per_env_step` is what comes of it.
    """

    Config = ApexConfig
    config: ApexConfig

    @property
    def mode(self) -> RolloutMode:
        """Fragments as they are ready."""
        return "async"

    def on_worker(self, trainee: Trainee) -> Sequence[Callable[[Any], Any]]:
        """First priorities; remote workers make room for shards and learner."""
        return first_priorities(trainee, self.config)

    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Fragments as they are ready; those for shards stay where they were collected."""
        return asynchronous_fragments(trainee, self.config.asynchrony, *self.on_worker(trainee))

    def learn(self, fragments: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Fragments into the replay and new weights to their workers; concurrently, minibatches out of it."""
        return store_and_learn_concurrently(fragments, trainee, self.config, self.config.asynchrony)


def first_priorities(trainee: Trainee, config: OffPolicyConfig) -> tuple[Callable[[Any], Any], ...]:
    """Returns what fragments pass on their worker: first priorities; remote workers make room for shards and learner.

    Args:
        trainee: Whose workers collect.
        config: The algorithm's settings.
    """
    priorities = InitialPriorities(config.n_step, config.gamma)
    return (priorities, LowerProcessPriority()) if trainee.workers.num_workers else (priorities,)


def asynchronous_fragments(
    trainee: Trainee, asynchrony: AsynchronyConfig, *on_worker: Callable[[Any], Any]
) -> Flow[Any]:
    """Returns the fragments as they are ready; those for shards stay where they were collected.

    Args:
        trainee: Whose workers collect.
        asynchrony: How workers, replay and learner go on side by side.
        on_worker: What each fragment passes on its worker.
    """
    return trainee.workers.rollouts(
        *on_worker,
        mode="async",
        in_flight=asynchrony.rollouts_in_flight,
        deliver="references" if asynchrony.replay_shards else "batches",
    )


def store_and_learn_concurrently(
    fragments: Flow[Any], trainee: Trainee, config: OffPolicyConfig, asynchrony: AsynchronyConfig
) -> Flow[Any]:
    """Stores fragments in a replay and answers with new weights; concurrently, learns from minibatches out of it.

    Args:
        fragments: What the workers collect.
        trainee: What is trained.
        config: The algorithm's settings.
        asynchrony: How workers, replay and learner go on side by side.
    """
    replay = distributed_replay(
        config.replay,
        trainee,
        n_step=config.n_step,
        gamma=config.gamma,
        shards=asynchrony.replay_shards,
        minibatches_in_flight=asynchrony.minibatches_in_flight,
        minibatches_per_fragment=asynchrony.minibatches_per_fragment,
        timeout_s=config.worker_timeout_s,
        max_restarts=config.max_worker_restarts,
    )
    store = (
        fragments.zip_with_worker()
        .for_each(StoreToReplay(replay))
        .for_each(MergeFilters(trainee))
        .zip_with_worker()
        .for_each(SendWeights(trainee, every=asynchrony.weights_age))
    )
    update = (
        replay_minibatches(
            replay,
            trainee,
            minibatch_size=config.minibatch_size,
            training_intensity=config.training_intensity,
            learning_starts=config.learning_starts,
            normalize_observations=config.normalize_observations,
        )
        .for_each(TrainOnMinibatch(trainee))
        .for_each(UpdatePriorities(replay))
        .for_each(UpdateTargetNetwork(trainee, config.target_update_interval, config.tau))
    )
    return concurrently(store, update, weights=(1, asynchrony.minibatches_per_fragment), output=store)
