"""Training: the main class of the Python API, for single-agent envs and multi-agent worlds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from typing_extensions import override

from rlrun.engine.algorithm import Algorithm
from rlrun.engine.checkpoint.format import Content, read_checkpoint, write_checkpoint
from rlrun.engine.data.action_kind import DEFAULT_KIND, ActionKind
from rlrun.engine.data.results import Results
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.evaluation import EvaluationResult
from rlrun.engine.settings.metric import HOOKS
from rlrun.engine.settings.registry import load_internal
from rlrun.engine.training.act.acting import Acting
from rlrun.engine.training.assemble.description import Description
from rlrun.engine.training.assemble.learner_factory import common_update_executor, continued_executor, silent
from rlrun.engine.training.assemble.metric_table import refuse_undeclared
from rlrun.engine.training.assemble.policies import Policies, clock_unit_of, schedules_of
from rlrun.engine.training.running_training import RunningTraining
from rlrun.engine.training.save.content import content_of
from rlrun.engine.worlds.user_env import EnvLike

if TYPE_CHECKING:
    from rlrun.engine.learner.executors.update_executor import UpdateExecutor
    from rlrun.engine.training.act.games import Games
    from rlrun.engine.training.save.checkpointing import SavedTraining
    from rlrun.engine.training.save.saved_opponents import SavedOpponent

PARTS = {
    "copied opponents": "rlrun.engine.training.save.saved_opponents:copied_opponents",
    "games": "rlrun.engine.training.act.games:Games",
    "loading": "rlrun.engine.training.save.checkpointing:loading",
    "saved executor": "rlrun.engine.training.save.checkpointing:update_executor_of",
    "saved state": "rlrun.engine.training.save.saved_state:load",
    "saved training": "rlrun.engine.training.save.checkpointing:saved_training",
}
"""Import paths of functions that only games and restored trainings need."""


class Training:
    """Trains one or several policies in an env: step, train, act, evaluate, save and restore.

    Processes start at the first `step`, `train`, `act`, `evaluate` or `save`, and end with the `with` block or `close`.

    Args:
        env: The environment or multi-agent world: an id, a mapping as in YAML, a class or function that is called for
            each env slot, or an env object, which becomes the only env slot; None to learn only from recorded data.
        learns: The algorithm with its settings; for a multi-agent world, the policies with their algorithms.
        kwargs: Keyword arguments of the env, as plain data.
        eval_env: The environment in which evaluations run; None for `env`.
        seed: Root seed, from which the seeds of episodes, workers and minibatch orders are derived.
        actions: Whether `act` and `evaluate` choose the most likely actions (greedy), or sample them as in training
            (sampled); stored in checkpoints.
        total_env_steps: Planned env steps (or SGD steps, for offline training) of all runs that share compiled updates,
            if known. Updates are compiled if this saves time over that many steps.
        announce: Callback for messages before slow operations.

    Attributes:
        description: Env, policies, seed, plan and metrics, which are known before the training starts.
        update_executor: Backend of parameter updates; None before it is chosen.

    Raises:
        SpecError: `env` or `eval_env` is invalid; the error lists all mistakes.
        EnvError: A function that creates the env raised an exception.
    """

    def __init__(
        self,
        env: EnvLike | None,
        learns: Algorithm[Any] | Policies,
        *,
        kwargs: Mapping[str, Any] | None = None,
        eval_env: EnvLike | None = None,
        seed: int = 0,
        actions: ActionKind = DEFAULT_KIND,
        total_env_steps: int | None = None,
        announce: Callable[[str], None] = silent,
    ) -> None:
        self.description = Description.of(env, learns, seed, actions, kwargs, eval_env)
        self.update_executor: UpdateExecutor | None = None
        self._copied_opponents: Mapping[str, SavedOpponent] = {}
        self._total_env_steps = total_env_steps
        self._announce = announce
        self._running: RunningTraining | None = None
        self._declared: set[str] = set()  # names of metrics in results so far

    @override
    def __repr__(self) -> str:
        steps = 0 if self._running is None else self._running.workers.counts.env_steps
        return f"<Training of {self.description.in_code}: iteration {self.iteration:,}, {steps:,} env steps>"

    @property
    def running(self) -> RunningTraining:
        """The running training, with its workers, learners and dataflow; the first access starts them."""
        return self.start()

    @property
    def acting(self) -> Acting:
        """Object for acting and evaluating with current weights; the first access starts workers and learners."""
        running = self.running
        return Acting(self.description, running.acting, running.league, has_episodes=running.has_episodes)

    @property
    def games(self) -> Games:
        """Games in a two-sided env with current weights; the first access starts workers and learners."""
        return load_internal(PARTS["games"])(self.description, self.acting)  # type: ignore[no-any-return]

    @property
    def iteration(self) -> int:
        """Number of iterations so far."""
        return 0 if self._running is None else self._running.iteration

    def start(self, *, for_training: bool = True) -> RunningTraining:
        """Starts policies, learners, workers and dataflow on the first call; returns the running training.

        Args:
            for_training: Whether to send the weights to the workers, which starts them.
        """
        if self._running is None:
            described = self.description
            if self.update_executor is None:
                algorithms = described.policies.algorithms.values()
                self.update_executor = common_update_executor(algorithms, self._total_env_steps)
            with described.hangs_fail():
                self._running = described.assembled(self._announce, self.update_executor, self._copied_opponents)
                if for_training:
                    described.require_one_process()
                    self._running.broadcast()
            for told in described.without_effect(self._running.spaces()):
                self._announce(told)
        return self._running

    def step(self, since_last_s: float = 0.0) -> dict[str, Any]:
        """Runs one iteration and returns its result, a flat dict of metrics.

        Args:
            since_last_s: Seconds of evaluation and saving since the last iteration, which the result's duration
                includes.

        Raises:
            TrainingFailed: An env, a plugin or a worker failed for good.
            UsageError: A part of the algorithm reports a metric that it does not declare.
        """
        running, described = self.running, self.description
        with described.hangs_fail():
            result = running.step(described.policies.steps_per_iteration, since_last_s)
        # Hooks may return undeclared numbers.
        if undeclared := {name for name in result if not name.startswith(HOOKS)} - self._declared:
            refuse_undeclared(undeclared, described.metrics(), described.policies)
            self._declared |= undeclared
        return result

    def train(self, env_steps: int) -> Results:
        """Runs iterations until the run has taken `env_steps` env steps in total; returns the iterations' results.

        Raises:
            TrainingFailed: An env, a plugin or a worker failed for good.
            UsageError: The algorithm steps no env.
        """
        if clock_unit_of(self.description.algorithm) != "env_steps":
            raise UsageError(f"{self.description.algorithm.name()} does not step an env; call step() for one iteration")
        counts, results = self.running.workers.counts, Results()
        while counts.env_steps < env_steps:
            results.append(self.step())
        return results

    def act(
        self,
        observation: Any,
        actions: ActionKind | None = None,
        *,
        episode_start: bool = False,
        prev_reward: float = 0.0,
    ) -> Any:
        """Returns the only policy's action for one observation, with the current weights."""
        return self.acting.only_policy().act(observation, actions, episode_start=episode_start, prev_reward=prev_reward)

    def evaluate(
        self, episodes: int = 20, *, seed: int = 0, actions: ActionKind | None = None, env: EnvLike | None = None
    ) -> EvaluationResult:
        """Evaluates the current weights over a number of episodes; returns the return and length of each episode."""
        return self.acting.evaluate(episodes, seed=seed, actions=actions, env=env)

    def save(self, path: Path | str) -> Path:
        """Writes a checkpoint atomically, and returns the path of its directory."""
        return write_checkpoint(Path(path), self.content(self.description.to_data()))

    @classmethod
    def restore(
        cls,
        path: Path | str,
        *,
        env: EnvLike | None = None,
        eval_env: EnvLike | None = None,
        trained_by: type[Algorithm[Any]] = Algorithm,
        trust: bool = False,
        eager: bool = False,
        for_training: bool = True,
        announce: Callable[[str], None] = silent,
    ) -> Self:
        """Restores a `Training` from a checkpoint.

        Args:
            path: The checkpoint's directory.
            env: Replacement for the saved environment; if it is an id or an object, the other saved settings of the
                environment, such as `kwargs`, are kept.
            eval_env: Environment for evaluations; None for the saved one.
            trained_by: Class of which the saved algorithms must be instances.
            trust: Whether to allow a checkpoint that names code or files outside the list of harmless ones.
            eager: Whether a run that started with compiled updates may continue without them.
            for_training: Whether the training will continue or be saved. If False, it can only act and evaluate, no
                episodes are restored, and the learner runs in this process on the CPU.
            announce: Callback for a message before a slow operation.

        Raises:
            CheckpointCorrupt: A file of the checkpoint is missing, truncated or altered.
            CheckpointRefused: The checkpoint names code or files outside that list, and `trust` is False.
            CheckpointError: The path is not a `Training`'s checkpoint, belongs to another algorithm, or lacks an env.
            CompilerMissing: The run started with compiled updates, there is no compiler here, and `eager` is False.
        """
        content = read_checkpoint(Path(path))
        parse: Callable[..., SavedTraining] = load_internal(PARTS["saved training"])
        saved = parse(content, path, trained_by, env=env, eval_env=eval_env, trust=trust)
        policies = saved.policies if for_training else saved.policies.learning_in_process()
        judged = saved.evaluation_env
        training = cls(saved.env, policies, eval_env=judged, seed=saved.seed, actions=saved.actions, announce=announce)
        with load_internal(PARTS["loading"])(path, undo=training.close):
            training.load(content, eager=eager, for_training=for_training)
        return training

    def content(self, spec: dict[str, Any]) -> Content:
        """Captures the current state as the content of a checkpoint; starts the training first if necessary.

        Args:
            spec: The training as plain data, with at least `env`, `seed`, `config`, and `algorithm` or `policies`.
        """
        return content_of(self.running, spec, self.description, self.update_executor)

    def load(self, content: Content, *, eager: bool = False, for_training: bool = True) -> None:
        """Restores the training from the content of a checkpoint.

        Policies that are missing from the checkpoint or had a different algorithm keep their initial state.

        Args:
            content: Content of the checkpoint.
            eager: Whether a run that started with compiled updates may continue without them.
            for_training: Whether the training will continue or be saved.

        Raises:
            CompilerMissing: The run started with compiled updates, there is no compiler here, and `eager` is False.
            CheckpointError: The checkpoint does not fit this env or network.
        """
        if "league" in content.state:
            self._copied_opponents = load_internal(PARTS["copied opponents"])(content.state)
        chosen = load_internal(PARTS["saved executor"])(content.manifest)
        self.update_executor = continued_executor(chosen, eager=eager, for_training=for_training)
        with self.description.hangs_fail():
            load = load_internal(PARTS["saved state"])
            load(self.start, self.description.policies, content, for_training=for_training)

    def reconfigure(self, learns: Algorithm[Any] | Policies) -> bool:
        """Changes scheduled settings, such as learning rates, while the training runs.

        Args:
            learns: The algorithm with its new settings; for a multi-agent world, the policies with their algorithms.

        Returns:
            Whether the settings were updated. Settings other than `scheduled_fields` require a new `Training`.
        """
        policies = learns if isinstance(learns, Policies) else Policies.alone(learns)
        if not self.description.policies.differ_only_in_schedules(policies):
            return False
        self.description = replace(self.description, policies=policies)
        for trainee in () if self._running is None else self._running.trainees:
            trainee.clock.schedules = schedules_of(policies.algorithms[trainee.name].config)
        return True

    def close(self) -> None:
        """Ends the processes of workers and learners; later calls start new ones."""
        if self._running is not None:
            with self.description.hangs_fail():
                self._running.close()
            self._running = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
