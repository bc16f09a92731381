"""Ape-X DQN: DQN with distributed prioritized replay and asynchronous actors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from rlrun.algorithms.dqn.dqn import DQN, DQNConfig
from rlrun.algorithms.dqn.q_settings import QSettings
from rlrun.algorithms.settings.off_policy import AsynchronyConfig, DistributedReplaySettings, OffPolicyConfig
from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.action_masks import FORBIDDEN
from rlrun.engine.data.packing import Packing
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.concurrently import concurrently
from rlrun.engine.flow.flow import Flow, Operator
from rlrun.engine.flow.operators.batch_refs import LowerProcessPriority
from rlrun.engine.flow.operators.replay import StoreToReplay
from rlrun.engine.flow.operators.weights import MergeFilters, SendWeights
from rlrun.engine.flow.recipes.replay_updates import REPLAY_METRICS, replay_updates
from rlrun.engine.flow.sources.rollouts import RolloutMode
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.policy.exploration.epsilons import EpsilonLadder
from rlrun.engine.replay.n_step import n_step_transitions
from rlrun.engine.replay.replay import RESTARTS, Replay
from rlrun.engine.replay.replay_buffer import PRIORITIES
from rlrun.engine.replay.replay_shards import ReplayShards
from rlrun.engine.settings.config import NonNegativeFloat, Schedule, defaults

if TYPE_CHECKING:
    from rlrun.engine.replay.replay_config import ReplayConfig
    from rlrun.engine.settings.metric import Metric


@defaults(
    lr=1e-4,
    minibatch_size=512,
    n_step=3,
    dueling=True,
    max_grad_norm=40.0,
    replay={"capacity": 2_000_000, "sampling": "prioritized"},
    learning_starts=50_000,
    target_update_interval=2500,
)
class ApexConfig(DistributedReplaySettings, DQNConfig):
    """Settings of Ape-X DQN (Horgan et al., arXiv:1803.00933); most defaults are the paper's.

    Unlike in the paper, the optimizer is Adam, with a different learning rate, instead of centered RMSProp. The paper
    uses 360 workers with one env each; `epsilon` and `epsilon_exponent` apply to any total number of envs.
    """

    epsilon: Schedule = 0.4
    """Epsilon of epsilon-greedy exploration in the first env slot. Slot i of the N env slots of all workers has
    epsilon^(1 + epsilon_exponent * i / (N - 1))."""
    epsilon_exponent: NonNegativeFloat = 7.0
    """Exponent that spreads epsilon over the env slots; with 0 all env slots have equal epsilons."""

    @property
    @override
    def q(self) -> QSettings:
        """Settings of the Q policy, with a different epsilon for each parallel env."""
        return replace(super().q, epsilon_spread=EpsilonLadder(self.epsilon_exponent), records_values=True)


class DistributedReplay(Algorithm[Any]):
    """Mixin for algorithms with distributed prioritized replay and asynchronous workers (arXiv:1803.00933).

    List it first among the base classes. Configs must extend `DistributedReplaySettings` and `OffPolicyConfig`, and
    rollout fragments must have the columns from which `InitialPriorities` computes priorities.
    """

    @property
    @override
    def operator_metrics(self) -> Sequence[Metric]:
        has_shards = self.config.asynchrony.replay_shards and self.config.num_workers
        return (*REPLAY_METRICS, RESTARTS) if has_shards else REPLAY_METRICS

    @property
    @override
    def mode(self) -> RolloutMode:
        return "async"

    @override
    def on_worker(self, trainee: Trainee) -> Sequence[Callable[[Any], Any]]:
        """Operators that each worker runs: compute initial priorities, and lower the OS priority of remote workers."""
        priorities = InitialPriorities(self.config.n_step, self.config.gamma)
        return (priorities, LowerProcessPriority()) if trainee.workers.num_workers else (priorities,)

    @override
    def collect(self, trainee: Trainee) -> Flow[Any]:
        """Creates the stream of rollout fragments from asynchronous workers.

        If replay shards (processes) store the fragments, these stay in Ray's object store.
        """
        return asynchronous_fragments(trainee, self.config.asynchrony, *self.on_worker(trainee))

    @override
    def learn(self, fragments: Flow[Any], trainee: Trainee) -> Flow[Any]:
        """Builds the dataflow that stores rollouts in the replay buffer and, concurrently, trains on minibatches.

        A worker that delivers a rollout gets new weights once its weights are `asynchrony.weights_age` minibatches old.
        """
        return store_and_learn_concurrently(fragments, trainee, self.config, self.config.asynchrony)


class Apex(DistributedReplay, DQN):
    """Distributed prioritized experience replay with DQN's policy and loss (arXiv:1803.00933).

    Workers compute initial priorities, and each parallel env has a different epsilon. Workers and learner do not wait
    for each other; the metric `minibatches_per_env_step` is the resulting replay ratio.
    """

    Config = ApexConfig
    config: ApexConfig


def asynchronous_fragments(
    trainee: Trainee, asynchrony: AsynchronyConfig, *on_worker: Callable[[Any], Any]
) -> Flow[Any]:
    """Creates the stream of rollout fragments from asynchronous workers.

    If replay shards (processes) store the fragments, these stay in Ray's object store.

    Args:
        trainee: The policy in training to which the workers belong.
        asynchrony: Settings of the concurrency of workers, replay buffer and learner.
        on_worker: Operators that workers apply to each fragment.
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
    """Builds the dataflow that stores rollouts in a replay buffer and, concurrently, trains on minibatches.

    A worker that delivers a rollout gets new weights once its weights are `weights_age` minibatches old.

    Args:
        fragments: Stream of the rollout fragments (consecutive steps of parallel envs) that workers collect.
        trainee: The policy in training, with its learner, workers and step clock.
        config: The algorithm's settings.
        asynchrony: Settings of the concurrency of workers, replay buffer and learner.
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
    updates = replay_updates(replay, trainee, config, most_together=1)
    return concurrently(store, updates, weights=(1, asynchrony.minibatches_per_fragment), output=store)


_VALUES = ("q_values", "values", "taken_values")


class InitialPriorities(Operator):
    """Adds the column `priorities` [T, B]: each step's absolute TD error under the weights that collected it.

    TD errors are computed from recorded columns, which are then removed: `q_values` [T + 1, B, A] of all actions, or
    `values` [T + 1, B] of the greedy actions and `taken_values` [T, B] of the actions taken. An n-step return
    that would reach beyond the rollout fragment is shortened to end with the fragment.

    Source:
        Horgan et al., arXiv:1803.00933, section 3 and algorithm 1 (ComputePriorities).
    """

    def __init__(self, n_step: int, gamma: float) -> None:
        self.n_step = n_step
        self.gamma = gamma

    @override
    def settings(self) -> dict[str, Any]:
        return {"n_step": self.n_step, "gamma": self.gamma}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Adds the column `priorities` [T, B] to a fragment, with 0 at invalid steps."""
        rows = Packing(item["valid"], item["terminateds"], item["truncateds"])
        rewards, terminateds, valid = (rows.pack(item[name]) for name in ("rewards", "terminateds", "valid"))
        if "q_values" in item:
            values = rows.pack(item["q_values"])
            actions = np.where(valid, rows.pack(item["actions"]), 0)
            taken = np.take_along_axis(values[:-1], actions[..., None], -1)[..., 0]
            best = values.max(-1)
            # An episode's final observation may allow no action; its value must not affect priorities.
            best = np.where(best == FORBIDDEN, 0, best)
        else:
            best, taken = rows.pack(item["values"]), rows.pack(item["taken_values"])
        found = n_step_transitions(rewards, terminateds, rows.truncateds, valid, gamma=self.gamma, n_step=self.n_step)
        length, slots = valid.shape
        behind = np.arange(length)[:, None] + found.steps
        errors = np.abs(found.rewards + found.discounts * best[behind, np.arange(slots)] - taken)
        batch = SampleBatch({name: column for name, column in item.items() if name not in _VALUES})
        batch[PRIORITIES] = rows.unpack(np.where(valid, errors, 0).astype(np.float32))
        return batch


def distributed_replay(
    config: ReplayConfig,
    trainee: Trainee,
    *,
    n_step: int,
    gamma: float,
    shards: int,
    minibatches_in_flight: int,
    minibatches_per_fragment: int,
    timeout_s: float,
    max_restarts: int,
) -> Replay:
    """Creates an empty replay buffer, sharded over several processes if there are remote workers.

    Without remote workers, or with 0 shards, the buffer is local to this process.

    Args:
        config: Settings of the buffer; its capacity is divided among the shards.
        trainee: The policy in training whose rollout fragments are stored.
        n_step: Number of rewards in the n-step return, before bootstrapping.
        gamma: Discount factor.
        shards: Maximum number of shard processes.
        minibatches_in_flight: Minibatches prefetched from each shard.
        minibatches_per_fragment: Minibatches sampled before the next fragment is accepted.
        timeout_s: Seconds without an answer after which a shard is restarted.
        max_restarts: Maximum number of shard restarts before the trial fails.
    """
    if not (trainee.workers.num_workers and shards):
        return trainee.make_replay(config, n_step=n_step, gamma=gamma)
    return ReplayShards(
        config,
        shards,
        trainee.workers.indices,
        n_step=n_step,
        gamma=gamma,
        seed=trainee.seed,
        minibatches_in_flight=minibatches_in_flight,
        minibatches_per_fragment=minibatches_per_fragment,
        timeout_s=timeout_s,
        max_restarts=max_restarts,
        make_goals=trainee.make_goals,
    )
