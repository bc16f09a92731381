"""Training: a trainee under its algorithm in an env, as a running whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rlrun.checkpoint.format import Content, read_checkpoint, write_checkpoint
from rlrun.envs.make import check_same_spaces
from rlrun.flow.clock import Clock
from rlrun.flow.policy_workers import PolicyWorkers
from rlrun.flow.trainee import Trainee
from rlrun.rollout.evaluation import EvaluationResult, evaluate
from rlrun.rollout.rollout import DEFAULT_POLICY
from rlrun.rollout.worker_config import WorkerConfig
from rlrun.rollout.worker_set import WorkerSet
from rlrun.training import checkpointing
from rlrun.training.acting import ActingPolicy
from rlrun.training.episode_metrics import EpisodeMetrics
from rlrun.training.learner_factory import (
    COMPILED_ELSEWHERE,
    AlgorithmLearnerFactory,
    compiling_pays,
    demand_compiler,
    silent,
    started_learner,
)
from rlrun.training.metric_table import metric_table

if TYPE_CHECKING:
    from rlrun.algorithm import Algorithm
    from rlrun.algorithm_config import AlgorithmConfig
    from rlrun.envs.env_config import EnvConfig
    from rlrun.flow.flow import Flow
    from rlrun.metric import Metric
    from rlrun.policy.behavior import BehaviorPolicy


class Training:
    """Steps, saves, restores and evaluates one trainee; as a context manager it leaves no process behind.

    Nothing is started before the first `step`, `act`, `evaluate` or `save`.

    Args:
        env: The environment.
        algorithm: The algorithm with its settings.
        seed: Root seed; every episode, worker and minibatch order draws from a child of it.
        total_env_steps: How long the run is meant to be, if known: updates are compiled where that pays over such a
            run.
        announce: Called with a sentence when something is about to take long.

    Attributes:
        env: The environment.
        algorithm: The algorithm.
        seed: Root seed.
        iteration: Iterations so far.
        time_total_s: Seconds that they took.
        is_compiled: Whether updates run compiled; None before that is decided.
        env_slots_restarted: Env slots that a restored training could not bring back exactly.
        is_restored_in_part: Whether it was restored from an older format, of which env places, replay and dataflow are
            not read.
    """

    def __init__(
        self,
        env: EnvConfig,
        algorithm: Algorithm[Any],
        *,
        seed: int = 0,
        total_env_steps: int | None = None,
        announce: Callable[[str], None] = silent,
    ) -> None:
        self.env = env
        self.algorithm = algorithm
        self.seed = seed
        self.iteration = 0
        self.time_total_s = 0.0
        self.is_compiled: bool | None = None
        self.env_slots_restarted = 0
        self.is_restored_in_part = False
        self._total_env_steps = total_env_steps
        self._announce = announce
        self._running: _Running | None = None

    # What a user calls.

    def start(self) -> None:
        """Builds policy, learner and dataflow, unless that has been done; `step` does so by itself."""
        self._started()

    def step(self) -> dict[str, Any]:
        """Runs one iteration and returns its result: flat, with the names of `metrics`.

        Raises:
            TrainingFailed: An env, a plugin or a worker failed for good.
        """
        running = self._started()
        workers, flow, trainee = running.workers, running.flow, running.trainee
        trainee.clock.begin_iteration()
        began, waited_before = time.perf_counter(), flow.waited_s
        next(flow)
        while trainee.clock.steps_this_iteration < self.algorithm.config.min_env_steps_per_iteration:
            next(flow)
        seconds = time.perf_counter() - began
        self.iteration += 1
        self.time_total_s += seconds
        running.episodes.add(workers.counts.take_episodes())
        return {
            "iteration": self.iteration,
            "env_steps": workers.counts.env_steps,
            "agent_steps": workers.counts.env_steps,
            "sgd_steps": trainee.learner.sgd_steps,
            **running.episodes.result(),
            "env_steps_per_s": trainee.clock.env_steps_this_iteration / seconds,
            **trainee.lag.take(),
            "time_this_iter_s": seconds,
            "time_total_s": self.time_total_s,
            "weights_version": trainee.learner.weights_version,
            "worker_restarts": workers.worker_restarts,
            **{f"learner/{name}": value for name, value in trainee.learner.take_statistics().items()},
            **{f"learner/{name}": value for name, value in trainee.clock.scheduled().items()},
            **flow.metrics(),
            **running.take_operator_seconds(),
            "time/learner_wait_share": (flow.waited_s - waited_before) / seconds,
        }

    def act(self, observation: Any, explore: bool = False, *, episode_start: bool = False) -> Any:
        """Returns the action for one observation: the likeliest one, or with `explore` a drawn one.

        Args:
            observation: What the env shows.
            explore: Whether the action is drawn.
            episode_start: Whether an episode begins with it, which only recurrent policies need to know.
        """
        return self._started().acting.act(observation, explore=explore, episode_start=episode_start)

    def evaluate(
        self,
        episodes: int = 20,
        *,
        seed: int = 0,
        explore: bool = False,
        env: EnvConfig | None = None,
    ) -> EvaluationResult:
        """Runs exactly so many episodes with the present weights and the saved normalisation.

        Args:
            episodes: How many; their seeds are fixed beforehand.
            seed: Seed of the episodes.
            explore: Whether actions are drawn instead of the likeliest ones.
            env: Another environment than the one trained on.

        Raises:
            UsageError: The policy does not fit that environment.
        """
        if env is not None and env != self.env:
            check_same_spaces(env, self.env)
        return evaluate(self._started().acting.behavior(), env or self.env, episodes, seed, explore=explore)

    def plan(self) -> Flow[Any]:
        """Returns the dataflow for printing; it starts nothing and is not to be pulled."""
        return self._assembled(compile_updates=False, for_plan=True).flow

    def metrics(self) -> list[Metric]:
        """Returns what results report, declared; like `plan` it starts nothing."""
        return metric_table(self.algorithm, self.plan())

    def close(self) -> None:
        """Ends the workers and learners; the next call would start everything anew."""
        if self._running is not None:
            self._running.close()
            self._running = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What runs.

    @property
    def trainee(self) -> Trainee:
        """What is trained; everything is started for it if it has not been."""
        return self._started().trainee

    @property
    def workers(self) -> WorkerSet:
        """The rollout workers."""
        return self._started().workers

    @property
    def flow(self) -> Flow[Any]:
        """The running dataflow."""
        return self._started().flow

    def _started(self) -> _Running:
        """Builds policy, learner, workers and dataflow at the first call."""
        if self._running is None:
            self.iteration, self.time_total_s = 0, 0.0
            if self.is_compiled is None:
                self.is_compiled = compiling_pays(self.algorithm.config, self._total_env_steps)
            self._running = self._assembled(compile_updates=self.is_compiled)
            self._broadcast()
        return self._running

    def _assembled(self, *, compile_updates: bool, for_plan: bool = False) -> _Running:
        """Returns trainee, workers and dataflow; for a plan nothing of them is started."""
        config = self.algorithm.config
        factory = AlgorithmLearnerFactory(self.algorithm, self.env, self.seed, compile_updates)
        start_learner = cache(partial(started_learner, factory, self._announce))
        behaviors = {} if for_plan else {DEFAULT_POLICY: start_learner().policy.behavior()}
        workers = self._worker_set(behaviors)
        schedules = {name: getattr(config, name) for name in config.scheduled_fields()}
        trainee = Trainee(
            name=DEFAULT_POLICY,
            policy_names=(DEFAULT_POLICY,),
            seed=self.seed,
            fragment_length=config.fragment_length,
            learner_factory=factory,
            start_learner=start_learner,
            get_spaces=lambda: factory.spaces,
            workers=PolicyWorkers(workers, DEFAULT_POLICY),
            clock=Clock(schedules, workers.counts, start_learner, self.algorithm.clock_unit),
        )
        flow = self.algorithm.learn(self.algorithm.collect(trainee), trainee)
        learns_elsewhere = config.num_learners or (config.num_workers and trainee.workers.learns_on_workers)
        if compile_updates and learns_elsewhere:
            self._announce(COMPILED_ELSEWHERE)
        return _Running(workers, trainee, flow)

    def _worker_set(self, behaviors: dict[str, BehaviorPolicy]) -> WorkerSet:
        """Returns the workers, which start when they are first used."""
        config = self.algorithm.config
        worker = WorkerConfig(
            env=self.env,
            num_envs=config.num_envs_per_worker,
            fragment_length=config.fragment_length,
            seed=self.seed,
            behaviors=behaviors,
            gamma=config.gamma,
            clip_rewards=config.clip_rewards,
            normalize_rewards=config.normalize_rewards,
            num_workers=max(config.num_workers, 1),
        )
        return WorkerSet(
            self.algorithm.worker_config(worker),
            config.num_workers,
            num_cpus_per_worker=config.num_cpus_per_worker,
            worker_timeout_s=config.worker_timeout_s,
            max_worker_restarts=config.max_worker_restarts,
            factory=self.algorithm.worker_factory,
        )

    def _broadcast(self) -> None:
        """Has all workers go on from the present weights, and those that learn from the present optimizer."""
        running = self._started()
        running.trainee.workers.send(running.trainee.weights(optimizer=True))
        running.acting.refresh()

    # Checkpoints.

    def save(self, path: Path | str) -> Path:
        """Writes a checkpoint and returns its directory; it is there whole or not at all."""
        spec = {
            "algorithm": self.algorithm.name(),
            "env": self.env.to_data(),
            "config": self.algorithm.config.to_data(),
            "seed": self.seed,
        }
        return write_checkpoint(Path(path), self.content(spec))

    @classmethod
    def restore(
        cls,
        path: Path | str,
        *,
        trust: bool = False,
        eager: bool = False,
        announce: Callable[[str], None] = silent,
    ) -> Self:
        """Returns the training that a checkpoint describes, where it left off.

        Args:
            path: The checkpoint's directory.
            trust: Whether import paths of one's own that it names may be followed.
            eager: Whether a run that began with compiled updates may go on without.
            announce: Called with a sentence when something is about to take long.

        Raises:
            CheckpointCorrupt: A file of it is missing, truncated or altered.
            CheckpointRefused: It names import paths, and `trust` is False.
            CheckpointError: It is not a checkpoint of a training.
            CompilerMissing: It began with compiled updates, there is no compiler here, and `eager` is False.
        """
        content = read_checkpoint(Path(path))
        saved = checkpointing.saved_training(content, path, trust=trust)
        training = cls(saved.env, saved.algorithm, seed=saved.seed, announce=announce)
        training.load(content, eager=eager)
        return training

    def content(self, spec: dict[str, Any]) -> Content:
        """Returns everything that a checkpoint of this moment holds.

        Args:
            spec: What the checkpoint says of how it was made; at least `algorithm`, `env`, `config` and `seed`.
        """
        running = self._started()
        trainee = running.trainee
        return Content(
            manifest={
                "algorithm": self.algorithm.name(),
                "observation_space": str(trainee.spaces.observation),
                "action_space": str(trainee.spaces.action),
                "compiled": bool(self.is_compiled),
                "iteration": self.iteration,
                "env_steps": running.workers.counts.env_steps,
                "sgd_steps": trainee.learner.sgd_steps,
            },
            spec=spec,
            tensors=checkpointing.trainee_tensors(trainee),
            state={
                "training": checkpointing.section(
                    "training",
                    {
                        "iteration": self.iteration,
                        "time_total_s": self.time_total_s,
                        "episodes": running.episodes.state(),
                    },
                ),
                "workers": checkpointing.section("workers", running.workers.state()),
                "trainees": {trainee.name: checkpointing.trainee_sections(trainee, running.flow)},
            },
        )

    def load(self, content: Content, *, eager: bool = False) -> None:
        """Goes on where a checkpoint left off.

        Of a checkpoint in version 1 of the format the places of the envs, the replay and the dataflow are left out.

        Args:
            content: What `content` returned.
            eager: Whether a run that began with compiled updates may go on without.

        Raises:
            CompilerMissing: It began with compiled updates, there is no compiler here, and `eager` is False.
            CheckpointError: It does not fit this env or network.
        """
        self.is_compiled = bool(content.manifest["compiled"]) and not eager
        if self.is_compiled:
            demand_compiler()
        running = self._started()
        sections = checkpointing.as_version_2(content).state
        own = self._adopt(content, sections)
        running.trainee.learner.load_state(checkpointing.section_state(own, "learner"))
        state = checkpointing.section_state(sections, "training")
        self.iteration, self.time_total_s = int(state["iteration"]), float(state["time_total_s"])
        self._count_anew()
        self._broadcast()
        self.is_restored_in_part = content.format_version == 1
        if self.is_restored_in_part:
            return
        self.env_slots_restarted = running.workers.load_state(checkpointing.section_state(sections, "workers"))
        running.flow.load_state(checkpointing.section_state(own, "flow"))

    def load_weights(self, content: Content) -> None:
        """Loads only the policy and its filters, to start another run from them.

        Raises:
            CheckpointError: It does not fit this env or network.
        """
        trainee = self.trainee
        own = checkpointing.as_version_2(content).state["trainees"][trainee.name]
        checkpointing.load_policy(trainee, content)
        trainee.filters.load_state(checkpointing.section_state(own, "filters"))
        self._broadcast()

    def adopt(self, content: Content) -> None:
        """Adopts what another run of the algorithm has learned: weights, optimizer, filters, counters, returns.

        Its own envs and draws go on where they are, and its iterations and seconds are counted on.

        Args:
            content: A checkpoint of the other run.

        Raises:
            CheckpointError: It does not fit this env or network.
        """
        sections = checkpointing.as_version_2(content).state
        own = self._adopt(content, sections)
        self.trainee.learner.adopt_state(checkpointing.section_state(own, "learner"))
        self._count_anew()
        self._broadcast()

    def _adopt(self, content: Content, sections: Mapping[str, Any]) -> Mapping[str, Any]:
        """Loads what a restored run and one that adopts another have in common; returns the trainee's sections."""
        running = self._started()
        trainee = running.trainee
        own: Mapping[str, Any] = sections["trainees"][trainee.name]
        checkpointing.load_policy(trainee, content)
        trainee.learner.load_optimizer_state(content.tensors[f"optimizers/{trainee.name}"])
        trainee.filters.load_state(checkpointing.section_state(own, "filters"))
        running.workers.counts.env_steps = int(checkpointing.section_state(sections, "workers")["env_steps"])
        running.episodes.load_state(checkpointing.section_state(sections, "training")["episodes"])
        return own

    def _count_anew(self) -> None:
        """Has the next result count minibatches and env steps from here, as the counters have just been set."""
        self._started().flow.metrics()

    def reconfigure(self, config: AlgorithmConfig) -> bool:
        """Goes on with new settings, if they differ from the present ones only where that is possible.

        Args:
            config: The new settings.

        Returns:
            Whether it does: only `scheduled_fields` can change in place, anything else needs a new training.
        """
        schedules = {name: getattr(config, name) for name in config.scheduled_fields()}
        if self.algorithm.config.replace(**schedules) != config:
            return False
        self.algorithm = type(self.algorithm)(config)
        if self._running is not None:
            self._running.trainee.clock.schedules = schedules
        return True


class _Running:
    """What a training has started.

    Attributes:
        workers: The rollout workers.
        trainee: What is trained.
        flow: The dataflow.
        episodes: What is reported of finished episodes.
        acting: Acts and is evaluated in this process.
    """

    def __init__(self, workers: WorkerSet, trainee: Trainee, flow: Flow[Any]) -> None:
        self.workers = workers
        self.trainee = trainee
        self.flow = flow
        self.episodes = EpisodeMetrics()
        self.acting = ActingPolicy(trainee)
        self._seconds: dict[str, float] = {}

    def take_operator_seconds(self) -> dict[str, float]:
        """Returns the seconds of each operator since the last call, and of waiting for workers."""
        before, now = self._seconds, {timing.path: timing.seconds for timing in self.flow.timings()}
        now["waiting"] = self.flow.waited_s
        self._seconds = now
        return {f"time/{path}_s": seconds - before.get(path, 0.0) for path, seconds in now.items()}

    def close(self) -> None:
        """Ends what the dataflow has started, the workers and the learner."""
        self.flow.close()
        self.workers.close()
        self.trainee.learner.close()
