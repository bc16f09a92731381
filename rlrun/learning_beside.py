"""What the algorithms share that learn beside collecting: the dataflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rlrun.flow.concurrently import concurrently
from rlrun.flow.flow import Flow
from rlrun.flow.initial_priorities import StoreWithPriorities
from rlrun.flow.left_on_workers import YieldToLearning, rollouts_left_on_workers
from rlrun.flow.operators import LearnResult, MergeFilters, SendWeights, UpdateTargetNetwork
from rlrun.flow.replay import NormalizeReplayed, TrainOnReplayed, UpdatePriorities
from rlrun.flow.replay_shards import ReplayShards
from rlrun.flow.sharded_replay import TellPriorities, replay, store_to_shards
from rlrun.flow.sources import parallel_rollouts
from rlrun.off_policy import minibatches_of, replay_of

if TYPE_CHECKING:
    from rlrun.flow.trainee import Trainee
    from rlrun.rollout.worker_set import WorkerSet


def collected(workers: WorkerSet, config: Any, *on_workers: Callable[[Any], Any]) -> Flow[Any]:
    """Returns fragments as they are ready; those for shards stay where they were collected.

    Args:
        workers: Who collects.
        config: How they go on.
        on_workers: What the fragments pass on their worker.
    """
    if workers.num_workers:
        on_workers = (*on_workers, YieldToLearning())
    if workers.num_workers and config.replay_shards:
        return rollouts_left_on_workers(workers, *on_workers, in_flight=config.rollouts_in_flight)
    return parallel_rollouts(workers, *on_workers, mode="async", in_flight=config.rollouts_in_flight)


class TrainBeside(TrainOnReplayed):
    """Runs a step of SGD on each minibatch, and reports how many that were for each env step."""

    def __init__(self, trainee: Trainee) -> None:
        super().__init__(trainee)
        self._before = 0, 0

    def metrics(self) -> dict[str, float]:
        """Returns minibatches for each env step since the last call."""
        before, self._before = self._before, (self.trainee.learner.sgd_steps, self.trainee.clock.env_steps)
        minibatches, steps = (now - then for now, then in zip(self._before, before, strict=True))
        return {"minibatches_per_env_step": minibatches / max(steps, 1)}


def learn_beside(
    rollouts: Flow[Any],
    trainee: Trainee,
    config: Any,
    asynchrony: Any,
    seed: int,
) -> Flow[LearnResult]:
    """Puts fragments into a replay, in shards or in this process, and sends new weights; beside that, learns from it.

    Args:
        rollouts: What `collected` returns.
        trainee: Who learns, with the workers that collect.
        config: How much is learned, and from what.
        asynchrony: How they go on beside each other.
        seed: Root seed of the draws.
    """
    workers = trainee.workers
    if workers.num_workers and asynchrony.replay_shards:
        stored, updated = _over_shards(rollouts, trainee, config, asynchrony, seed)
    else:
        experience = replay_of(config, workers, seed)
        stored = rollouts.zip_with_worker().for_each(StoreWithPriorities(experience, workers))
        trained = minibatches_of(experience, trainee, config).for_each(TrainBeside(trainee))
        updated = trained.for_each(UpdatePriorities(experience))
    answered = (
        stored.for_each(MergeFilters(trainee))
        .zip_with_worker()
        .for_each(SendWeights(trainee, every=asynchrony.weights_age))
    )
    updated = updated.for_each(UpdateTargetNetwork(trainee.learner, config.target_update_interval, config.tau))
    return concurrently(answered, updated, weights=(1, asynchrony.minibatches_per_fragment), output=answered)


def _over_shards(
    rollouts: Flow[Any],
    trainee: Trainee,
    config: Any,
    asynchrony: Any,
    seed: int,
) -> tuple[Flow[LearnResult], Flow[Any]]:
    """Returns fragments put into shards, and what was learned from minibatches out of them."""
    workers = trainee.workers
    shards = ReplayShards(
        config.replay,
        asynchrony.replay_shards,
        workers,
        n_step=config.n_step,
        gamma=config.gamma,
        seed=seed,
        minibatches_per_fragment=asynchrony.minibatches_per_fragment,
        timeout_s=config.worker_timeout_s,
        max_restarts=config.max_worker_restarts,
    )
    minibatches = replay(
        shards,
        workers,
        batch_size=config.minibatch_size,
        training_intensity=config.training_intensity,
        learning_starts=config.learning_starts,
        in_flight=asynchrony.minibatches_in_flight,
    )
    if config.normalize_observations:
        minibatches = minibatches.for_each(NormalizeReplayed(trainee))
    trained = minibatches.for_each(TrainBeside(trainee))
    return store_to_shards(rollouts, shards), trained.zip_with_worker().for_each(TellPriorities(shards))
