"""Ape-X DQN: many actors, replays in actors of their own, a learner that none of them waits for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rlrun.algorithms.dqn import DQN, DQNConfig
from rlrun.config import ConfigModel, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Schedule
from rlrun.flow.concurrently import concurrently
from rlrun.flow.flow import Flow
from rlrun.flow.initial_priorities import InitialPriorities, StoreWithPriorities
from rlrun.flow.operators import LearnResult, MergeFilters, SendWeights, UpdateTargetNetwork
from rlrun.flow.replay import NormalizeReplayed, TrainOnReplayed, UpdatePriorities, replayed
from rlrun.flow.replay_shards import ReplayShards, TellPriorities, replay, rollouts_left_on_workers, store_to_shards
from rlrun.flow.sources import parallel_rollouts
from rlrun.functional.exploration import EpsilonLadder
from rlrun.off_policy import OffPolicyConfig, replay_of
from rlrun.replay.replay_config import ReplayConfig
from rlrun.rollout.worker_set import WorkerSet

if TYPE_CHECKING:
    import gymnasium

    from rlrun.learner.any_learner import AnyLearner
    from rlrun.policy.q import QPolicy


class AsynchronyConfig(ConfigModel):
    """How workers, replay and learner go on beside each other."""

    replay_shards: NonNegativeInt = 1
    """Processes that keep the replay, each with the fragments of its share of the remote workers; they get no CPUs of
    their own. 0 keeps it in the trial's process, as the local worker alone does."""
    minibatches_in_flight: PositiveInt = 4
    """Minibatches that each of them is asked for ahead of time, so that the learner finds one when it is ready."""
    rollouts_in_flight: PositiveInt = 2
    """Fragments that each worker is asked for ahead of time."""
    minibatches_per_fragment: PositiveInt = 1
    """Minibatches that are learned from before the next fragment is taken in, once learning has begun: workers that
    are faster than that wait. Where they are slower there are more of them; with the replay in the trial's process and
    the local worker, exactly so many follow each fragment."""
    weights_age: PositiveInt = 50
    """A worker gets new weights with its next fragment when its own are at least so many minibatches old (the paper's
    actors copy them every 400 frames, during which its learner gets about 56 minibatches further)."""


class ApexConfig(DQNConfig):
    """Settings of Ape-X DQN (Horgan et al., arXiv:1803.00933); the paper's unless they say otherwise.

    Adam takes the place of the paper's centred RMSProp. The paper has 360 workers with an env each; `epsilon` and
    `epsilon_exponent` are for any number of them.
    """

    lr: Schedule = 1e-4
    """Learning rate; not the paper's, which has another optimizer."""
    train_batch_size: PositiveInt = 512
    """Steps in a minibatch drawn from the replay."""
    rollout_fragment_length: PositiveInt | None = 50
    """Steps of each env that go into the replay together."""
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
    training_intensity: PositiveFloat = 1000.0
    """Most minibatches for every env step after that. The default is out of reach: Ape-X learns as fast as it can, and
    minibatches_per_env_step in the results says how fast that was."""
    asynchrony: AsynchronyConfig = AsynchronyConfig()
    """How workers, replay and learner go on beside each other."""

    @property
    def sgd_steps_per_env_step(self) -> float:
        """Minibatches per env step at least, where the learner finds one whenever it is ready."""
        return self.asynchrony.minibatches_per_fragment / (self.fragment_length * self.num_envs_per_worker)


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
        self._beside = LearningBeside(self.config, self.config.asynchrony, workers, self.seed)
        return self._beside.flow(rollouts, self.learner)

    def own_metrics(self) -> Mapping[str, float]:
        """Returns how often it learned for each env step, and how many shards were lost."""
        return self._beside.metrics(self.learner)

    def close(self) -> None:
        """Ends the shards with the rest."""
        if self._flow is not None:
            self._beside.close()
        super().close()


def collected(workers: WorkerSet, config: AsynchronyConfig, *on_workers: Callable[[Any], Any]) -> Flow[Any]:
    """Returns fragments as they are ready; those for shards stay where they were collected.

    Args:
        workers: Who collects.
        config: How they go on.
        on_workers: What the fragments pass on their worker.
    """
    if workers.num_workers and config.replay_shards:
        return rollouts_left_on_workers(workers, *on_workers, in_flight=config.rollouts_in_flight)
    return parallel_rollouts(workers, *on_workers, mode="async", in_flight=config.rollouts_in_flight)


class LearningBeside:
    """The dataflow of learning beside collecting, over a replay in shards or in this process."""

    def __init__(self, config: OffPolicyConfig, asynchrony: AsynchronyConfig, workers: WorkerSet, seed: int) -> None:
        """Takes how to learn and who collects; starts nothing."""
        self.config = config
        self.asynchrony = asynchrony
        self.workers = workers
        self.shards: ReplayShards | None = None
        if workers.num_workers and asynchrony.replay_shards:
            self.shards = ReplayShards(
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
        self._seed = seed
        self._before = 0, 0

    def flow(self, rollouts: Flow[Any], learner: AnyLearner) -> Flow[LearnResult]:
        """Returns fragments put by, with learning between them.

        Args:
            rollouts: Fragments, or where they lie.
            learner: Who learns.
        """
        config, workers = self.config, self.workers
        if self.shards is None:
            experience = replay_of(config, workers, self._seed)
            stored = rollouts.zip_with_worker().for_each(StoreWithPriorities(experience, workers))
            minibatches = replayed(
                experience,
                workers,
                batch_size=config.train_batch_size,
                training_intensity=config.training_intensity,
                learning_starts=config.learning_starts,
            )
            learned = self._trained(minibatches, learner).for_each(UpdatePriorities(experience))
        else:
            stored = store_to_shards(rollouts, self.shards)
            minibatches = replay(
                self.shards,
                workers,
                batch_size=config.train_batch_size,
                training_intensity=config.training_intensity,
                learning_starts=config.learning_starts,
                in_flight=self.asynchrony.minibatches_in_flight,
            )
            learned = self._trained(minibatches, learner).zip_with_worker().for_each(TellPriorities(self.shards))
        answered = (
            stored.for_each(MergeFilters(learner, workers))
            .zip_with_worker()
            .for_each(SendWeights(learner, workers, every=self.asynchrony.weights_age))
        )
        updated = learned.for_each(UpdateTargetNetwork(learner, config.target_update_interval, config.tau))
        turns = 1, self.asynchrony.minibatches_per_fragment
        return concurrently(answered, updated, weights=turns, output=answered)

    def _trained(self, minibatches: Flow[Any], learner: AnyLearner) -> Flow[Any]:
        if self.config.normalize_observations:
            minibatches = minibatches.for_each(NormalizeReplayed(learner))
        return minibatches.for_each(TrainOnReplayed(learner, self.workers))

    def metrics(self, learner: AnyLearner) -> dict[str, float]:
        """Returns minibatches for each env step since the last call, and how many shards were made anew.

        Args:
            learner: Who learned.
        """
        before, self._before = self._before, (learner.sgd_steps, self.workers.env_steps)
        minibatches, steps = (now - then for now, then in zip(self._before, before, strict=True))
        lost = {} if self.shards is None else {"replay_shard_restarts": float(self.shards.restarts)}
        return {"minibatches_per_env_step": minibatches / max(steps, 1), **lost}

    def close(self) -> None:
        """Ends the shards."""
        if self.shards is not None:
            self.shards.close()
