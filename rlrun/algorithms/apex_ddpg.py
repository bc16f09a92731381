"""Ape-X DPG: DDPG with many actors, replays in actors of their own, and a learner that none of them waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rlrun.algorithms.ddpg import DDPG, DDPGConfig
from rlrun.algorithms.settings_distributed_replay import DistributedReplaySettings
from rlrun.config import defaults
from rlrun.flow.concurrently import concurrently
from rlrun.flow.flow import Flow
from rlrun.flow.operators.batch_refs import LowerProcessPriority
from rlrun.flow.operators.initial_priorities import InitialPriorities
from rlrun.flow.operators.replay import StoreToReplay, UpdatePriorities
from rlrun.flow.operators.training import TrainOnMinibatch, UpdateTargetNetwork
from rlrun.flow.operators.weights import MergeFilters, SendWeights
from rlrun.flow.recipes.replays import distributed_replay
from rlrun.flow.sources.replay_minibatches import replay_minibatches
from rlrun.flow.trainee import Trainee


@defaults(
    lr=1e-4,
    critic_lr=1e-4,
    n_step=5,
    exploration_noise=0.3,
    replay={"capacity": 1_000_000, "prioritized": True},
    learning_starts=10_000,
    target_update_interval=100,
    tau=1.0,
)
class ApexDDPGConfig(DistributedReplaySettings, DDPGConfig):
    """Settings of Ape-X DPG (Horgan et al., arXiv:1803.00933, section 4.2 and appendix D).

    Most defaults are the paper's. Its 64 workers have an env each, and all the same noise; its learner clips its
    gradients, which max_grad_norm does not by default.
    """


class ApexDDPG(DDPG):
    """DDPG's policy and losses in the dataflow of Ape-X."""

    Config = ApexDDPGConfig
    config: ApexDDPGConfig
    records_values = True

    def on_worker(self, trainee: Trainee) -> Sequence[Callable[[Any], Any]]:
        """First priorities; remote workers make room for shards and learner."""
        priorities = InitialPriorities(self.config.n_step, self.config.gamma)
        return (priorities, LowerProcessPriority()) if trainee.workers.num_workers else (priorities,)

    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Fragments as they are ready; those for shards stay where they were collected."""
        asynchrony = self.config.asynchrony
        return trainee.workers.rollouts(
            *self.on_worker(trainee),
            mode="async",
            in_flight=asynchrony.rollouts_in_flight,
            deliver="references" if asynchrony.replay_shards else "batches",
        )

    def learn(self, fragments: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Fragments into the replay and new weights to their workers; concurrently, minibatches out of it."""
        config, asynchrony = self.config, self.config.asynchrony
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
