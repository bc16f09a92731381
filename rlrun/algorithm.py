"""An algorithm: its settings, its loss, what it collects and how it learns, and the running whole made of those."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

import numpy as np

from rlrun.algorithm_config import AlgorithmConfig
from rlrun.checkpoint.format import Content, read_checkpoint, write_checkpoint
from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree
from rlrun.envs.env_config import EnvConfig
from rlrun.envs.make import check_same_spaces, spaces_of
from rlrun.errors import CheckpointError, CheckpointRefused, CompilerMissing, SpecError
from rlrun.flow.clock import Clock
from rlrun.flow.flow import Flow
from rlrun.flow.operators import LearnResult
from rlrun.flow.sources import parallel_rollouts
from rlrun.flow.trainee import Trainee
from rlrun.functional.seeding import child_seed, generator
from rlrun.learner.objective import Loss, Objective
from rlrun.metrics import EpisodeMetrics
from rlrun.registry import BUILT_IN, algorithm_class, is_trusted_path, load_object
from rlrun.rollout.evaluation import EvaluationResult, evaluate
from rlrun.rollout.rollout import DEFAULT_POLICY
from rlrun.rollout.rollout_worker import WorkerConfig
from rlrun.rollout.worker_set import WorkerSet

if TYPE_CHECKING:
    import gymnasium

    from rlrun.learner.learner import Learner
    from rlrun.learner.learner_group import LearnerGroup
    from rlrun.learner.local_learner import LocalLearner
    from rlrun.learner.parameter_server import ParameterServers
    from rlrun.policy.behavior import BehaviorPolicy
    from rlrun.policy.policy import Policy

__all__ = ["RESULT_KEYS", "Algorithm", "AlgorithmConfig"]

C = TypeVar("C", bound=AlgorithmConfig)

RESULT_KEYS = (
    "iteration",
    "env_steps",
    "agent_steps",
    "sgd_steps",
    "episodes",
    "episode_return_mean",
    "episode_return_min",
    "episode_return_max",
    "episode_len_mean",
    "env_steps_per_s",
    "policy_lag_mean",
    "policy_lag_max",
    "time_this_iter_s",
    "time_total_s",
    "weights_version",
    "worker_restarts",
)
"""What every algorithm reports at every iteration, besides `learner/...`, `info/...` and `time/...`."""

POLICY_FAMILIES = {
    "actor_critic": "rlrun.policy.actor_critic:ActorCriticPolicy",
    "q": "rlrun.policy.q:QPolicy",
    "recurrent_q": "rlrun.policy.recurrent_q:RecurrentQPolicy",
}
"""Import paths of the policy families that come with rlrun."""

COMPILE_PAYS_FROM_SGD_STEPS = 20_000
"""Updates from which compiling them costs less than it saves, cold cache included."""


class Algorithm(Generic[C]):
    """A plugin and, once trained, the running whole: subclasses give a config, a loss and a dataflow.

    Nothing is started before the first `train`, `act`, `evaluate` or `save`. As a context manager it leaves no process
    behind.

    Attributes:
        Config: The class of its settings.
        policy_family: Name of a built-in policy family, or `package.module:Class` of one's own.
        has_target_network: Whether the learner keeps a target network, which the dataflow reads and updates.
        learner_metrics: Names of the statistics its loss returns, reported as `learner/<name>`.
        config: The settings.
        env: The environment.
        seed: Root seed; every episode, worker and minibatch order draws from a child of it.
        learner: The policy's parameters under the optimizer; there once the algorithm has started.
        workers: The rollout workers; there once the algorithm has started.
        trainee: What operators take: both of them, the clock and the filters.
    """

    Config: ClassVar[type[AlgorithmConfig]]
    policy_family: ClassVar[str] = "actor_critic"
    has_target_network: ClassVar[bool] = False
    learner_metrics: ClassVar[tuple[str, ...]] = ()

    learner: Learner
    workers: WorkerSet
    trainee: Trainee

    def __init__(
        self,
        env: EnvConfig | Mapping[str, Any] | str,
        config: AlgorithmConfig | Mapping[str, Any] | None = None,
        *,
        seed: int = 0,
        total_env_steps: int | None = None,
        announce: Callable[[str], None] = lambda message: None,
    ) -> None:
        """Takes what the algorithm is to do; starts nothing.

        Args:
            env: The environment: an id, or a mapping or config with more.
            config: Settings; those left out have their defaults.
            seed: Root seed.
            total_env_steps: How long the run is meant to be, if known: updates are compiled where that pays over such
                a run.
            announce: Called with a sentence when something is about to take long.

        Raises:
            SpecError: With everything that is wrong in `env` or `config`.
        """
        self.env = env if isinstance(env, EnvConfig) else EnvConfig.parse(env, path="env")
        self.config: C = cast(
            C, config if isinstance(config, AlgorithmConfig) else self.Config.parse(config or {}, path="config")
        )
        self.seed = seed
        self.iteration = 0
        self.time_total_s = 0.0
        self.is_compiled: bool | None = None
        self.columns_restarted = 0
        self._total_env_steps = total_env_steps
        self._announce = announce
        self._metrics = EpisodeMetrics()
        self._flow: Flow[LearnResult] | None = None
        self._behavior: BehaviorPolicy | None = None
        self._acts_as_of = -1
        self._seconds: dict[str, float] = {}
        self._draws = generator(seed, "act")

    # What a plugin gives.

    def loss(self, outputs: Any, batch: SampleBatch, scheduled: Mapping[str, Any]) -> Loss:
        """Returns what to minimise on rows of experience.

        It may use tensor methods of its arguments freely, and must not look at values in Python's own control flow.

        Args:
            outputs: What the policy's network says of the rows.
            batch: Columns [S, L, ...]; cells with `valid` 0 hold zeros and must not count.
            scheduled: Settings that change with the env steps, each [].
        """
        raise TypeError(f"{type(self).__name__} gives neither a loss nor objectives of its own")

    def objectives(self) -> list[Objective]:
        """Returns what the learner minimises: the one loss, unless a plugin says otherwise."""
        return [Objective("loss", self.loss, max_grad_norm=self.config.max_grad_norm)]

    def make_policy(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], *, seed: int
    ) -> Policy:
        """Returns the policy as it is at the start of a run: one of the family, unless a plugin makes its own.

        Args:
            observation_space: What the env shows.
            action_space: What it takes.
            seed: Seed of the first parameters.
        """
        family = load_object(POLICY_FAMILIES.get(self.policy_family, self.policy_family), "policy family")
        policy: Policy = family(
            observation_space,
            action_space,
            self.config.model,
            normalize_observations=self.config.normalize_observations,
            seed=seed,
        )
        return policy

    def collect(self, workers: WorkerSet) -> Flow[SampleBatch]:
        """Returns the stream of experience: a fragment of every worker in turn, with the latest weights."""
        return parallel_rollouts(workers)

    def learn(self, rollouts: Flow[SampleBatch], workers: WorkerSet) -> Flow[LearnResult]:
        """Returns the stream of learning: one item is one iteration."""
        raise TypeError(f"{type(self).__name__} does not say how it learns")

    def own_metrics(self) -> Mapping[str, float]:
        """Returns what the algorithm reports at an iteration besides what all do; none by default."""
        return {}

    # What a user calls.

    def start(self) -> None:
        """Builds the policy, the learner and the dataflow, unless that has been done; `train` does so by itself."""
        self._started()

    def train(self) -> dict[str, Any]:
        """Runs one iteration and returns its result: flat, with the names in `RESULT_KEYS` and more.

        Raises:
            TrainingFailed: An env, a plugin or a worker failed for good.
        """
        flow = self._started()
        began, steps_before, waited_before = time.perf_counter(), self.workers.env_steps, flow.waited_s
        next(flow)
        while self.workers.env_steps - steps_before < self.config.min_env_steps_per_iteration:
            next(flow)
        seconds = time.perf_counter() - began
        self.iteration += 1
        self.time_total_s += seconds
        self._metrics.add(self.workers.take_episodes())
        return {
            "iteration": self.iteration,
            "env_steps": self.workers.env_steps,
            "agent_steps": self.workers.env_steps,
            "sgd_steps": self.learner.sgd_steps,
            **self._metrics.result(),
            "env_steps_per_s": (self.workers.env_steps - steps_before) / seconds,
            **self.trainee.lag.take(),
            "time_this_iter_s": seconds,
            "time_total_s": self.time_total_s,
            "weights_version": self.learner.weights_version,
            "worker_restarts": self.workers.worker_restarts,
            **{f"learner/{name}": value for name, value in self.learner.take_statistics().items()},
            **{f"learner/{name}": value for name, value in self.trainee.clock.scheduled().items()},
            **flow.metrics(),
            **self.own_metrics(),
            **self._operator_seconds(flow),
            "time/learner_wait_share": (flow.waited_s - waited_before) / seconds,
        }

    @property
    def flow(self) -> Flow[LearnResult]:
        """The running dataflow; everything is started for it if it has not been."""
        return self._started()

    def _operator_seconds(self, flow: Flow[LearnResult]) -> dict[str, float]:
        """Returns the seconds of each operator in this iteration, and of waiting for workers."""
        before, now = self._seconds, {timing.path: timing.seconds for timing in flow.timings()}
        now["waiting"] = flow.waited_s
        self._seconds = now
        return {f"time/{path}_s": seconds - before.get(path, 0.0) for path, seconds in now.items()}

    def act(self, observation: Any, explore: bool = False, *, starts: bool = False) -> Any:
        """Returns the action for one observation: the likeliest one, or with `explore` a drawn one.

        Args:
            observation: What the env shows.
            explore: Whether the action is drawn.
            starts: Whether an episode begins with it, which only policies with memory need to be told.
        """
        batch = map_tree(lambda leaf: leaf[None], map_tree(_as_array, observation))
        acting = self._acting()
        acting.begin_episodes(np.array([starts]))
        actions = acting.actions(batch, self._draws if explore else None)
        return map_tree(lambda leaf: leaf[0], actions)

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
        return evaluate(self._acting(), env or self.env, episodes, seed, explore=explore)

    def save(self, path: Path | str) -> Path:
        """Writes a checkpoint and returns its directory; it is there whole or not at all."""
        spec = {
            "algorithm": self.name(),
            "env": self.env.to_data(),
            "config": self.config.to_data(),
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
        announce: Callable[[str], None] = lambda message: None,
    ) -> Self:
        """Returns the algorithm that a checkpoint describes, where it left off.

        Args:
            path: The checkpoint's directory.
            trust: Whether import paths of one's own that it names may be followed.
            eager: Whether a run that began with compiled updates may go on without.
            announce: Called with a sentence when something is about to take long.

        Raises:
            CheckpointCorrupt: A file of it is missing, truncated or altered.
            CheckpointRefused: It names import paths, and `trust` is False.
            CheckpointError: It is not a checkpoint, or of another algorithm.
            CompilerMissing: It began with compiled updates, there is no compiler here, and `eager` is False.
        """
        content = read_checkpoint(Path(path))
        try:
            refuse_untrusted(content.spec, trust)
            found = algorithm_class(content.spec["algorithm"])
            env, seed = EnvConfig.parse(content.spec["env"]), int(content.spec["seed"])
            config = found.Config.parse_earlier(content.spec["config"])
        except (KeyError, TypeError, ValueError, SpecError) as error:
            missing = f"it does not say its {error}" if isinstance(error, KeyError) else str(error)
            raise CheckpointError(f"{path}: its spec is not one of a checkpoint: {missing}") from error
        if not issubclass(found, cls):
            raise CheckpointError(f"{path}: a checkpoint of {found.__name__}, not of {cls.__name__}")
        algorithm = found(env, config, seed=seed, announce=announce)
        algorithm.load(content, eager=eager)
        return algorithm

    def plan(self) -> Flow[LearnResult]:
        """Returns the dataflow for printing; it starts nothing and cannot be pulled."""
        workers = self._worker_set({})
        # Operators keep it until they are pulled, which a printed plan never is.
        self.learner = cast("Learner", None)
        self.trainee = self._trainee(workers)
        return self.learn(self.collect(workers), workers)

    def close(self) -> None:
        """Ends the workers and learners; the next call would start everything anew."""
        if self._flow is not None:
            self._flow.close()
            self.workers.close()
            self.learner.close()
            self._flow = None
            self._behavior = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Checkpoints.

    @classmethod
    def name(cls) -> str:
        """The name by which a spec finds this class."""
        path = f"{cls.__module__}:{cls.__qualname__}"
        return next((name for name, built_in in BUILT_IN.items() if built_in == path), path)

    def content(self, spec: dict[str, Any]) -> Content:
        """Returns everything that a checkpoint of this moment holds.

        Args:
            spec: What the checkpoint says of how it was made; at least `algorithm`, `env`, `config` and `seed`.
        """
        flow = self._started()
        return Content(
            manifest={
                "algorithm": self.name(),
                "observation_space": str(self._spaces[0]),
                "action_space": str(self._spaces[1]),
                "compiled": bool(self.is_compiled),
                "iteration": self.iteration,
                "env_steps": self.workers.env_steps,
                "sgd_steps": self.learner.sgd_steps,
            },
            spec=spec,
            tensors={
                f"policies/{DEFAULT_POLICY}": self.learner.policy.parameters.named(self.learner.flat()),
                f"optimizers/{DEFAULT_POLICY}": self.learner.optimizer_state(),
                **self._target_tensors(),
            },
            state={
                "iteration": self.iteration,
                "time_total_s": self.time_total_s,
                "learner": {**self.learner.state(), "filters": self.trainee.filters.state()},
                "workers": self.workers.state(),
                "flow": flow.state(),
                "metrics": self._metrics.state(),
            },
        )

    def load(self, content: Content, *, eager: bool = False) -> None:
        """Goes on where a checkpoint left off.

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
        flow = self._started()
        self._load_policy(content)
        self.learner.load_optimizer_state(content.tensors[f"optimizers/{DEFAULT_POLICY}"])
        self.learner.load_state(content.state["learner"])
        self.trainee.filters.load_state(content.state["learner"]["filters"])
        self.iteration = int(content.state["iteration"])
        self.time_total_s = float(content.state["time_total_s"])
        self._metrics.load_state(content.state["metrics"])
        self.workers.env_steps = int(content.state["workers"]["env_steps"])
        self._broadcast()
        self.columns_restarted = self.workers.load_state(content.state["workers"])
        flow.load_state(content.state["flow"])

    def load_weights(self, content: Content) -> None:
        """Takes over only the policy and its filters, to start another run from them.

        Raises:
            CheckpointError: It does not fit this env or network.
        """
        self._started()
        self._load_policy(content)
        self.trainee.filters.load_state(content.state["learner"]["filters"])
        self._broadcast()

    def adopt(self, content: Content) -> None:
        """Takes over what another run of the algorithm has learned: weights, optimizer, filters, counters, returns.

        Its own envs and draws go on where they are, and its iterations and seconds are counted on.

        Args:
            content: A checkpoint of the other run.

        Raises:
            CheckpointError: It does not fit this env or network.
        """
        self._started()
        self._load_policy(content)
        self.learner.load_optimizer_state(content.tensors[f"optimizers/{DEFAULT_POLICY}"])
        self.learner.adopt_state(content.state["learner"])
        self.trainee.filters.load_state(content.state["learner"]["filters"])
        self.workers.env_steps = int(content.state["workers"]["env_steps"])
        self._metrics.load_state(content.state["metrics"])
        self._broadcast()

    def reconfigure(self, config: C) -> bool:
        """Takes new settings while running, if they differ from the present ones only where that is possible.

        Args:
            config: The new settings.

        Returns:
            Whether they were taken: only `scheduled_fields` can change in place, anything else needs a new algorithm.
        """
        names = config.scheduled_fields()
        if self.config.replace(**{name: getattr(config, name) for name in names}) != config:
            return False
        self.config = config
        if self._flow is not None:
            self.trainee.clock.schedules = {name: getattr(config, name) for name in names}
        return True

    def _target_tensors(self) -> dict[str, dict[str, Any]]:
        target = self.learner.target()
        if target is None:
            return {}
        return {f"targets/{DEFAULT_POLICY}": self.learner.policy.parameters.named(target)}

    def _load_policy(self, content: Content) -> None:
        parameters = self.learner.policy.parameters
        try:
            flat = parameters.from_named(content.tensors[f"policies/{DEFAULT_POLICY}"])
            if self.has_target_network:
                self.learner.load_target(parameters.from_named(content.tensors[f"targets/{DEFAULT_POLICY}"]))
        except (KeyError, ValueError) as error:
            raise CheckpointError(f"the checkpoint does not fit this env and network: {error}") from error
        self.learner.load_flat(flat)

    def _broadcast(self) -> None:
        """Has all workers go on from the present weights, and learners beside them from the present optimizer."""
        self.workers.set_weights({DEFAULT_POLICY: self.trainee.learning_weights(with_optimizer=True)})
        self._behavior = None

    # The running whole.

    def _started(self) -> Flow[LearnResult]:
        """Builds policy, learner, workers and dataflow at the first call."""
        if self._flow is not None:
            return self._flow
        self.iteration, self.time_total_s = 0, 0.0
        self._metrics, self._seconds = EpisodeMetrics(), {}
        if self.is_compiled is None:
            self.is_compiled = self._compiling_pays()
        if self.config.num_learners:
            self.learner = self._learner_group()
        else:
            self.learner = self.make_learner(compile_updates=self.is_compiled)
        self.workers = self._worker_set({DEFAULT_POLICY: self.learner.policy.behavior()})
        self.trainee = self._trainee(self.workers)
        self._flow = self.learn(self.collect(self.workers), self.workers)
        self._broadcast()
        return self._flow

    def make_learner(
        self,
        *,
        compile_updates: bool,
        reduce: Callable[[Any], Any] | None = None,
        servers: ParameterServers | None = None,
        share: tuple[int, int] = (0, 1),
    ) -> LocalLearner:
        """Returns a learner as it is at the start of the run, the same in every process.

        An algorithm that is sent to another process arrives there as what it was made from, so this method of it makes
        a learner there.

        Args:
            compile_updates: Whether its updates run compiled.
            reduce: Adds up gradients over the learners that learn together.
            servers: Hold the optimizer instead of the learner.
            share: (i, n): of every minibatch it takes the i-th of n equal parts, from 0.
        """
        from rlrun.learner.device import available_device, limit_threads
        from rlrun.learner.local_learner import LocalLearner

        limit_threads(self.config.torch_threads)
        self._spaces = spaces_of(self.env)
        return LocalLearner(
            self._policy(),
            self.objectives(),
            device=available_device(self.config.num_gpus),
            compile_updates=compile_updates,
            identity=self._identity(),
            seed=child_seed(self.seed, "minibatches"),
            microbatch_size=self.config.microbatch_size,
            reduce=reduce,
            servers=servers,
            share=share,
            precision=self.config.precision,
            has_target=self.has_target_network,
            announce=self._announce,
        )

    def remote_learner(self) -> partial[LocalLearner]:
        """Returns what makes a learner where it is sent to: in an actor, or in a worker that computes gradients.

        In a process of its own it has nobody to announce a compilation to before that is over, so it is done here.
        """
        if self.is_compiled and self.config.needs_ray:
            self._announce(
                "whoever learns in a process of its own compiles the update, unless that was done for these settings "
                "before (about 20 s, minutes for networks with memory)"
            )
        return partial(self.make_learner, compile_updates=bool(self.is_compiled))

    def _learner_group(self) -> LearnerGroup:
        """Returns learners in processes of their own, which make themselves by `make_learner`."""
        from rlrun.learner.device import limit_threads
        from rlrun.learner.learner_group import LearnerGroup

        limit_threads(self.config.torch_threads)
        self._spaces = spaces_of(self.env)
        return LearnerGroup(
            self.remote_learner(),
            self.config.num_learners,
            policy=self._policy(),
            num_parameter_servers=self.config.num_parameter_servers,
            objectives=self.objectives(),
            num_cpus_per_learner=self.config.cpus_per_learner,
            num_gpus_per_learner=self.config.gpus_per_learner,
            timeout_s=self.config.worker_timeout_s,
            cpus_beside=self.config.num_workers * self.config.num_cpus_per_worker,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.env, self.config, self.seed)

    def _identity(self) -> str | None:
        """Returns what determines the learner's updates, or None if code outside of rlrun takes part in them."""
        named = [self.name(), self.policy_family, self.config.model.module or ""]
        if any(":" in name for name in named):
            return None
        spaces = [str(space) for space in self._spaces]
        scheduled = self.config.scheduled_fields()  # their values come in with each update
        settings = {name: value for name, value in self.config.to_data().items() if name not in scheduled}
        return json.dumps([*named, settings, *scheduled, *spaces], sort_keys=True)

    def _worker_set(self, behaviors: dict[str, BehaviorPolicy]) -> WorkerSet:
        """Returns the workers, which start when they are first used."""
        config = self.config
        return WorkerSet(
            WorkerConfig(
                env=self.env,
                num_envs=config.num_envs_per_worker,
                fragment_length=config.fragment_length,
                seed=self.seed,
                behaviors=behaviors,
                gamma=config.gamma,
                clip_rewards=config.clip_rewards,
                normalize_rewards=config.normalize_rewards,
                num_workers=max(config.num_workers, 1),
            ),
            config.num_workers,
            num_cpus_per_worker=config.num_cpus_per_worker,
            worker_timeout_s=config.worker_timeout_s,
            max_worker_restarts=config.max_worker_restarts,
        )

    def _trainee(self, workers: WorkerSet) -> Trainee:
        schedules = {name: getattr(self.config, name) for name in self.config.scheduled_fields()}
        return Trainee(self.learner, workers, Clock(schedules, workers))

    def _policy(self) -> Policy:
        return self.make_policy(*self._spaces, seed=child_seed(self.seed, "parameters"))

    def _compiling_pays(self) -> bool:
        """Decides once whether updates are compiled: by the spec alone, and by whether a compiler is there."""
        if self.config.compile == "auto":
            from rlrun.learner.compilation import compiler

            total = self._total_env_steps
            pays = total is not None and total * self.config.sgd_steps_per_env_step >= COMPILE_PAYS_FROM_SGD_STEPS
            return pays and compiler() is not None
        if self.config.compile:
            demand_compiler(
                "config.compile is true, and there is no C++ compiler here: install g++ or clang++, or set it to auto"
            )
        return self.config.compile

    def _acting(self) -> BehaviorPolicy:
        """Returns a behavior policy with the present weights, apart from the workers' own."""
        self._started()
        if self._behavior is None:
            self._behavior = self.learner.policy.behavior()
            self._acts_as_of = -1
        if self._acts_as_of != self.learner.sgd_steps:
            self._behavior.load(self.trainee.weights())
            self._acts_as_of = self.learner.sgd_steps
        return self._behavior


BEGAN_COMPILED = (
    "the updates of this run are compiled, and there is no C++ compiler here: install g++ or clang++, "
    "or let it go on with plain updates (--eager; the last digits will differ from here on)"
)


def demand_compiler(otherwise: str = BEGAN_COMPILED) -> None:
    """Looks whether updates can be compiled here.

    Args:
        otherwise: What to say if not; by default what holds for a run that began compiled.

    Raises:
        CompilerMissing: If there is no C++ compiler.
    """
    from rlrun.learner.compilation import compiler

    if compiler() is None:
        raise CompilerMissing(otherwise)


def refuse_untrusted(spec: Mapping[str, Any], trust: bool) -> None:
    """Refuses a checkpoint whose spec names code that nobody has vouched for.

    Raises:
        CheckpointRefused: With every such name.
    """
    config = spec.get("config", {})
    named = [str(spec["algorithm"]), *EnvConfig.parse(spec["env"]).import_paths()]
    if isinstance(config, Mapping) and isinstance(config.get("model"), Mapping) and config["model"].get("module"):
        named.append(str(config["model"]["module"]))
    if isinstance(spec.get("evaluation"), Mapping) and spec["evaluation"].get("env"):
        named += EnvConfig.parse(spec["evaluation"]["env"]).import_paths()
    unknown = [name for name in dict.fromkeys(named) if ":" in name and not is_trusted_path(name)]
    if unknown and not trust:
        raise CheckpointRefused(
            f"the checkpoint would import {', '.join(unknown)}, which is neither built in nor installed as a plugin; "
            "if you trust it, say --trust (in Python: trust=True)"
        )


def _remade(kind: type[Algorithm[Any]], env: EnvConfig, config: AlgorithmConfig, seed: int) -> Algorithm[Any]:
    return kind(env, config, seed=seed)


def _as_array(leaf: Any) -> Any:
    return np.asarray(leaf)
