"""A training that has started: trainee, workers and dataflow, from iteration to iteration."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from rlrun.envs.spaces import empty_batch
from rlrun.flow.clock import Clock
from rlrun.flow.flow import Flow
from rlrun.flow.policy_workers import PolicyWorkers
from rlrun.flow.trainee import Trainee
from rlrun.functional.saved_numbers import as_count
from rlrun.rollout.rewards import RewardSettings
from rlrun.rollout.rollout import DEFAULT_POLICY
from rlrun.rollout.worker_config import WorkerConfig
from rlrun.rollout.worker_set import WorkerSet
from rlrun.training import checkpointing
from rlrun.training.acting import ActingPolicy
from rlrun.training.episode_metrics import EpisodeMetrics
from rlrun.training.learner_factory import COMPILED_ELSEWHERE, AlgorithmLearnerFactory, started_learner
from rlrun.training.plugin_results import demand
from rlrun.training.training_warnings import TrainingWarnings

if TYPE_CHECKING:
    from rlrun.algorithm import Algorithm
    from rlrun.checkpoint.format import Content
    from rlrun.envs.env_config import EnvConfig
    from rlrun.learner.update_executor import UpdateExecutor
    from rlrun.policy.behavior import BehaviorPolicy


class RunningTraining:
    """What a training has started, and what is counted of it.

    Args:
        workers: The rollout workers.
        trainee: What is trained.
        flow: The dataflow.
        announce: Called with a sentence on what nobody will have meant.
        env_slots: Envs of all workers together.

    Attributes:
        workers: The rollout workers.
        trainee: What is trained.
        flow: The dataflow.
        acting: Acts and is evaluated in this process.
        iteration: Iterations so far.
        time_total_s: Seconds that they took.
        unsaved: What the checkpoint lacked that it goes on from.
    """

    def __init__(
        self, workers: WorkerSet, trainee: Trainee, flow: Flow[Any], *, announce: Callable[[str], None], env_slots: int
    ) -> None:
        self.workers = workers
        self.trainee = trainee
        self.flow = flow
        self.acting = ActingPolicy(trainee)
        self.iteration = 0
        self.time_total_s = 0.0
        self.unsaved: tuple[str, ...] = ()
        self._episodes = EpisodeMetrics()
        self._warnings = TrainingWarnings(announce, trainee.workers, env_slots)
        self._seconds: dict[str, float] = {}

    def step(self, min_env_steps: int, since_last_s: float) -> dict[str, Any]:
        """Runs one iteration and returns its result.

        Args:
            min_env_steps: Env steps that it takes at least.
            since_last_s: Seconds since the last iteration that count into this one.
        """
        trainee, flow, counts = self.trainee, self.flow, self.workers.counts
        trainee.clock.begin_iteration()
        began, waited_before = time.perf_counter(), flow.waited_s
        next(flow)
        while trainee.clock.steps_this_iteration < min_env_steps:
            next(flow)
        seconds = time.perf_counter() - began
        self.iteration += 1
        self.time_total_s += since_last_s + seconds
        self._episodes.add(counts.take_episodes())
        self._warnings.look(trainee.learner.sgd_steps, counts.env_steps, self._episodes.episodes)
        return {
            "iteration": self.iteration,
            "env_steps": counts.env_steps,
            "agent_steps": counts.env_steps,
            "sgd_steps": trainee.learner.sgd_steps,
            **self._episodes.result(),
            "env_steps_per_s": trainee.clock.env_steps_this_iteration / seconds,
            **trainee.lag.take(),
            "time_this_iter_s": since_last_s + seconds,
            "time_total_s": self.time_total_s,
            "weights_version": trainee.learner.weights_version,
            "worker_restarts": self.workers.worker_restarts,
            **{f"learner/{name}": value for name, value in trainee.learner.take_statistics().items()},
            **{f"learner/{name}": value for name, value in trainee.clock.scheduled().items()},
            **flow.metrics(),
            **self._take_operator_seconds(),
            "time/learner_wait_share": (flow.waited_s - waited_before) / seconds,
        }

    def broadcast(self) -> None:
        """Has all workers go on from the present weights, and those that learn from the present optimizer."""
        self.trainee.workers.send(self.trainee.weights(optimizer=True))
        self._warnings.expect_more_than(self.trainee.workers.sendings)
        self.acting.refresh()

    def sections(self) -> dict[str, Any]:
        """Returns a checkpoint's sections."""
        workers = self.workers.state()
        own = {
            "iteration": self.iteration,
            "time_total_s": self.time_total_s,
            "episodes": self._episodes.state(),
            "unsaved": list(dict.fromkeys([*self.flow.unsaved(), *workers["unsaved"]])),
        }
        return {
            "training": checkpointing.section("training", own),
            "workers": checkpointing.section("workers", workers),
            "trainees": {self.trainee.name: checkpointing.trainee_sections(self.trainee, self.flow)},
        }

    def load(self, content: Content) -> int:
        """Goes on where a checkpoint left off.

        Of a checkpoint in version 1 of the format the places of the envs, the replay and the dataflow are left out.

        Returns:
            Env slots that could not be brought back exactly.
        """
        sections = checkpointing.as_version_2(content).state
        own = self._load_what_was_learned(content, sections)
        learner, state = checkpointing.section_state(own, "learner"), checkpointing.section_state(sections, "training")
        with checkpointing.refusing("section of its learner"):
            self.trainee.learner.load_state(learner)
        with checkpointing.refusing("section of its training"):
            self.iteration, self.time_total_s = as_count(state["iteration"]), float(state["time_total_s"])
            self.unsaved = tuple(state.get("unsaved", ()))  # earlier checkpoints did not say
        self._count_anew()
        self.broadcast()
        if content.format_version == 1:
            return 0
        workers, flow = checkpointing.section_state(sections, "workers"), checkpointing.section_state(own, "flow")
        with checkpointing.refusing("section of its workers"):
            restarted = self.workers.load_state(workers)
        with checkpointing.refusing("section of its flow"):
            self.flow.load_state(flow)
        return restarted

    def load_weights(self, content: Content) -> None:
        """Loads only the policy and its filters."""
        own = checkpointing.trainee_sections_of(checkpointing.as_version_2(content).state, self.trainee.name)
        checkpointing.load_policy(self.trainee, content)
        self._load_filters(own)
        self.broadcast()

    def adopt(self, content: Content) -> None:
        """Adopts what another run has learned, and goes on with its own envs and draws."""
        own = self._load_what_was_learned(content, checkpointing.as_version_2(content).state)
        with checkpointing.refusing("section of its learner"):
            self.trainee.learner.adopt_state(checkpointing.section_state(own, "learner"))
        self._count_anew()
        self.broadcast()

    def close(self) -> None:
        """Ends what the dataflow has started, the workers and the learner."""
        self.flow.close()
        self.workers.close()
        self.trainee.learner.close()

    def _load_what_was_learned(self, content: Content, sections: Mapping[str, Any]) -> Mapping[str, Any]:
        """Loads what a restored run and one that adopts another have in common; returns the trainee's sections."""
        trainee = self.trainee
        own = checkpointing.trainee_sections_of(sections, trainee.name)
        checkpointing.load_policy(trainee, content)
        checkpointing.load_optimizer(trainee, content)
        self._load_filters(own)
        with checkpointing.refusing("section of its workers"):
            self.workers.counts.env_steps = as_count(checkpointing.section_state(sections, "workers")["env_steps"])
        with checkpointing.refusing("section of its training"):
            self._episodes.load_state(checkpointing.section_state(sections, "training")["episodes"])
        return own

    def _load_filters(self, own: Mapping[str, Any]) -> None:
        with checkpointing.refusing("section of its filters"):
            self.trainee.filters.load_state(checkpointing.section_state(own, "filters"))
            self.acting.refresh()
            if self.trainee.filters.moments:  # raises where they are of other observations
                self.acting.behavior().filtered(empty_batch(self.trainee.spaces.observation, 1))

    def _count_anew(self) -> None:
        """Has the next result count minibatches and env steps from here, as the counters have just been set."""
        self.flow.metrics()

    def _take_operator_seconds(self) -> dict[str, float]:
        """Returns the seconds of each operator since the last call, and of waiting for workers."""
        before, now = self._seconds, {timing.path: timing.seconds for timing in self.flow.timings()}
        now["waiting"] = self.flow.waited_s
        self._seconds = now
        return {f"time/{path}_s": seconds - before.get(path, 0.0) for path, seconds in now.items()}


def assemble(
    env: EnvConfig,
    algorithm: Algorithm[Any],
    seed: int,
    announce: Callable[[str], None],
    *,
    update_executor: UpdateExecutor,
    for_plan: bool = False,
) -> RunningTraining:
    """Returns trainee, workers and dataflow.

    Args:
        env: The environment.
        algorithm: The algorithm with its settings.
        seed: Root seed.
        announce: Called with a sentence when something is about to take long.
        update_executor: How updates are computed.
        for_plan: Whether the dataflow is only printed: nothing is started then.
    """
    config = algorithm.config
    factory = AlgorithmLearnerFactory(algorithm, env, seed, update_executor)
    start_learner = cache(partial(started_learner, factory, announce))
    behaviors = {} if for_plan else {DEFAULT_POLICY: start_learner().policy.behavior()}
    workers = _worker_set(env, algorithm, seed, behaviors)
    schedules = {name: getattr(config, name) for name in config.scheduled_fields()}
    trainee = Trainee(
        name=DEFAULT_POLICY,
        policy_names=(DEFAULT_POLICY,),
        seed=seed,
        fragment_length=config.fragment_length,
        learner_factory=factory,
        start_learner=start_learner,
        get_spaces=lambda: factory.spaces,
        workers=PolicyWorkers(workers, DEFAULT_POLICY),
        clock=Clock(schedules, workers.counts, start_learner, algorithm.clock_unit),
    )
    collected = demand(algorithm.collect(trainee), Flow, algorithm, "collect")
    flow = demand(algorithm.learn(collected, trainee), Flow, algorithm, "learn")
    learns_elsewhere = config.num_learners or (config.num_workers and trainee.workers.learns_on_workers)
    if update_executor == "compiled" and learns_elsewhere:
        announce(COMPILED_ELSEWHERE)
    return RunningTraining(workers, trainee, flow, announce=announce, env_slots=config.env_slots)


def _worker_set(
    env: EnvConfig, algorithm: Algorithm[Any], seed: int, behaviors: dict[str, BehaviorPolicy]
) -> WorkerSet:
    """Returns the workers, which start when they are first used."""
    config = algorithm.config
    worker = WorkerConfig(
        env=env,
        num_envs=config.num_envs_per_worker,
        fragment_length=config.fragment_length,
        seed=seed,
        behaviors=behaviors,
        rewards={DEFAULT_POLICY: RewardSettings(config.gamma, config.clip_rewards, config.normalize_rewards)},
        num_workers=max(config.num_workers, 1),
        timeout_s=config.worker_timeout_s,
    )
    return WorkerSet(
        algorithm.worker_config(worker),
        config.num_workers,
        num_cpus_per_worker=config.num_cpus_per_worker,
        worker_timeout_s=config.worker_timeout_s,
        max_worker_restarts=config.max_worker_restarts,
        factory=algorithm.worker_factory,
    )
