"""Description of a training run, available before it starts: dataflow, metrics, networks, and validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rlrun.engine.algorithm import Algorithm
from rlrun.engine.data.action_kind import DEFAULT_KIND, ActionKind
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_watch import hangs_fail_after
from rlrun.engine.envs.make import check_env, check_same_spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.network_spec import chosen_by_observation
from rlrun.engine.nn.observation_leaves import described_leaves
from rlrun.engine.policy.action_masks import policy_leaves
from rlrun.engine.settings.registry import load_internal
from rlrun.engine.training.assemble.assembly import assemble
from rlrun.engine.training.assemble.learner_factory import made_policy, silent
from rlrun.engine.training.assemble.metric_table import metric_table
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.assemble.policies_in_world import policies_in_world
from rlrun.engine.worlds.make import spaces_of_policies
from rlrun.engine.worlds.user_env import EnvLike, env_config

if TYPE_CHECKING:
    from rlrun.engine.algorithm_config import AlgorithmConfig
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.flow.flow import Flow
    from rlrun.engine.league.matches import Matches
    from rlrun.engine.learner.executors.update_executor import UpdateExecutor
    from rlrun.engine.settings.config import ConfigModel
    from rlrun.engine.settings.metric import Metric
    from rlrun.engine.training.running_training import RunningTraining
    from rlrun.engine.training.save.saved_opponents import SavedOpponent


PARTS = {
    "check of data": "rlrun.engine.training.assemble.env_of_data:check_data_fits",
    "env of data": "rlrun.engine.training.assemble.env_of_data:env_of_data",
    "matches": "rlrun.engine.league.matches:Matches",
    "preset": "rlrun.engine.envs.presets:with_preset",
}
"""Import paths of functions that describe only some trainings."""

Settings = TypeVar("Settings", bound="AlgorithmConfig")

ANY_ENV = EnvConfig(id="CartPole-v1")
"""Placeholder env for the plan of an algorithm, for which no env is created."""


@dataclass(frozen=True)
class Description:
    """Description of a training run, started or not: its env or multi-agent world, policies and seed.

    Attributes:
        env: The environment, or the multi-agent world.
        policies: The policies, with their algorithms and settings.
        seed: Root seed.
        actions: Default kind of actions, greedy or sampled, in evaluations and inference.
        output: Folder to which the collected steps are written as a data set; None to write none.
        hooks: Settings of each hook by its import path.
        evaluation_env: The environment of evaluations; None for `env` with its `evaluation_kwargs`.
    """

    env: EnvConfig
    policies: Policies
    seed: int = 0
    actions: ActionKind = DEFAULT_KIND
    output: Path | None = None
    hooks: Sequence[Mapping[str, Mapping[str, Any]]] = ()
    evaluation_env: EnvConfig | None = None

    @classmethod
    def of(
        cls,
        env: EnvLike | None,
        learns: Algorithm[Any] | Policies,
        seed: int,
        actions: ActionKind,
        kwargs: Mapping[str, Any] | None = None,
        eval_env: EnvLike | None = None,
    ) -> Self:
        """Creates the description from env and algorithms as the user gave them; a preset of the env supplies defaults.

        Args:
            env: The environment, or the multi-agent world; None to learn only from data.
            learns: The algorithm with its settings; for a multi-agent world, the policies with their algorithms.
            seed: Root seed.
            actions: Default kind of actions, greedy or sampled, in evaluations and inference.
            kwargs: Keyword arguments of the env.
            eval_env: The environment of evaluations; None for `env`.

        Raises:
            SpecError: `env` or `eval_env` is invalid; the error lists all mistakes.
            UsageError: There is neither an env nor data, keyword arguments are given for an env object, or `learns` is
                a class.
            EnvError: A function that creates the env raised an exception.
        """
        if isinstance(learns, type):
            raise UsageError(
                f"{learns.__name__} is a class: pass an instance, {learns.__name__}(...), with its settings"
            )
        if env is None:
            config_of_data = load_internal(PARTS["env of data"])
            env = config_of_data(learns.config if isinstance(learns, Algorithm) else learns.sampling)
        world = env_config(env, kwargs)
        judged_in = None if eval_env is None else env_config(eval_env, path="eval_env")
        if isinstance(learns, Policies):
            if not learns.is_alone:
                learns = learns.in_env(world)
                sampling = _with_num_envs(learns.sampling, world.fixed_num_envs)
                return cls(world, replace(learns, sampling=sampling), seed, actions, evaluation_env=judged_in)
            learns = learns.first
        if world.preset is not None:
            check_env(world)
            with_preset = load_internal(PARTS["preset"])
            written, settings = with_preset(_as_written(world), _as_written(learns.config), type(learns.config))
            world, learns = EnvConfig.parse(written, path="env"), type(learns)(**settings)
        learns = learns.in_env(world)
        config = _with_num_envs(learns.config, world.fixed_num_envs)
        if config is not learns.config:
            learns = type(learns)(config)
        return cls(world, Policies.alone(learns), seed, actions, evaluation_env=judged_in)

    @property
    def algorithm(self) -> Algorithm[Any]:
        """Algorithm of the first policy, which is the only one in single-agent envs."""
        return self.policies.first

    @property
    def in_code(self) -> str:
        """Python source code that creates the algorithms with their settings, the env and the seed."""
        return f"{self.policies.in_code} in {self.env.id}, seed {self.seed}"

    def to_data(self) -> dict[str, Any]:
        """Converts env, policies and seed to plain data, as stored in a checkpoint."""
        judged_in = {} if self.evaluation_env is None else {"evaluation": {"env": self.evaluation_env.to_data()}}
        return {**self.policies.to_data(), "env": self.env.to_data(), "seed": self.seed, **judged_in}

    def plan(self) -> Flow[Any]:
        """Describes each operator of the training's dataflow, without starting workers or learners."""
        return assemble(self.env, self.policies, self.seed, silent, update_executor="eager", for_plan=True).flow

    def assembled(
        self,
        announce: Callable[[str], None],
        update_executor: UpdateExecutor,
        copied: Mapping[str, SavedOpponent],
    ) -> RunningTraining:
        """Creates the training's workers, learners and dataflow; their processes start on first use."""
        return assemble(
            self.env,
            self.policies,
            self.seed,
            announce,
            update_executor=update_executor,
            actions=self.actions,
            copied=copied,
            output=self.output,
            hooks=self.hooks,
        )

    def metrics(self) -> list[Metric]:
        """Declarations of all metrics in the training's results."""
        return metric_table(self.policies, self.hooks, has_many_agents=self.env.has_many_agents)

    def networks(self, spaces: Mapping[str, Spaces]) -> list[str]:
        """Describes each policy's network in lines of text: settings chosen automatically, and observation encodings.

        Args:
            spaces: Spaces of each policy.

        Raises:
            UsageError: An entry of an observation has no encoding.
        """
        lines = []
        reported_policies = self.policies.reported_policies(self.env)
        for policy, own in spaces.items():
            prefix = f"policy {policy}: " if policy in reported_policies else ""
            lines += [f"{prefix}{line}" for line in _network(self.policies.algorithms[policy].config, own)]
        return lines

    def without_effect(self, spaces: Mapping[str, Spaces]) -> list[str]:
        """Returns a warning for each policy with a setting that has no effect on its kind of observations.

        Args:
            spaces: Spaces of each policy.
        """
        algorithms = self.policies.algorithms
        return [told for name, own in spaces.items() if (told := nothing_to_normalize(algorithms[name].config, own))]

    def spaces(self) -> dict[str, Spaces]:
        """Returns each policy's observation and action space, read from a temporary single- or multi-agent env.

        Raises:
            EnvironmentUnusable: The env cannot be created on this machine.
            EnvError: The env's own code raised an exception.
        """
        with self.hangs_fail():
            return self._spaces_in(self.env)

    def _spaces_in(self, env: EnvConfig) -> dict[str, Spaces]:
        found = spaces_of_policies(env, self.policies.agent_mapping())
        return {policy: found[policy] for policy in self.policies.algorithms}

    def world_of_evaluation(self) -> EnvConfig:
        """Returns the config of the single- or multi-agent env in which evaluations run."""
        return self.env.in_evaluation() if self.evaluation_env is None else self.evaluation_env

    def matches(self) -> Matches:
        """Creates the object that plays games between the two sides of this multi-agent env.

        Raises:
            UsageError: The env has one agent, or its agents do not form two sides.
        """
        world = self.env.in_evaluation()
        if not world.has_many_agents:
            raise UsageError(
                f"env {world.id} has a single agent: policies can play each other only in a multi-agent world"
            )
        matches: Matches = load_internal(PARTS["matches"])(world, self.policies.agent_mapping(), self.policies.seats)
        return matches

    def check(self) -> None:
        """Validates the training by creating env and policies once, without training.

        Raises:
            UsageError: The algorithm cannot learn in this env.
            EnvironmentUnusable: The env cannot be created on this machine.
            EnvError: The env's own code raised an exception.
        """
        with self.hangs_fail():
            world = policies_in_world(self.env, self.policies.agent_mapping(), self.policies.slots)
            for policy, algorithm in self.policies.algorithms.items():
                made_policy(algorithm, world.spaces[policy], world.views.get(policy), self.seed)
                load_internal(PARTS["check of data"])(algorithm.config, world.spaces[policy])
            self.plan()  # refuses algorithms that cannot be combined

    def check_fits(self, env: EnvConfig, trained: Mapping[str, Spaces]) -> None:
        """Validates that another env, such as the evaluation env, has the spaces with which the policies are trained.

        Args:
            env: The other env.
            trained: The spaces with which each policy is trained.

        Raises:
            UsageError: The spaces differ.
        """
        if env == self.env:
            return
        may_be_single = self.env.external is not None and len(self.policies.acting) == 1
        if env.has_many_agents is not self.env.has_many_agents and not may_be_single:
            kind = "is a multi-agent world" if env.has_many_agents else "has a single agent"
            raise UsageError(f"env {env.id} {kind}, but training was in {self.env.id}")
        reported_policies = self.policies.reported_policies(env)
        with self.hangs_fail():
            for policy, spaces in self._spaces_in(env).items():
                whose = f"env {env.id}, policy {policy}" if policy in reported_policies else f"env {env.id}"
                check_same_spaces(whose, spaces, trained[policy])

    def require_one_process(self) -> None:
        """Validates, for an env that was passed as an object, that no other process has to step it.

        Raises:
            UsageError: The env is an object, and the settings require more processes.
        """
        sampling = self.policies.sampling
        if self.env.fixed_num_envs is not None and sampling.num_workers:
            raise UsageError(
                f"env {self.env.id} is an instance in this process, but num_workers is {sampling.num_workers}: "
                "pass a class or function, so that each worker process creates its own env"
            )

    def hangs_fail(self) -> AbstractContextManager[None]:
        """Context manager that raises an error if the env hangs in this process for `worker_timeout_s` seconds."""
        return hangs_fail_after(self.policies.sampling.worker_timeout_s)


def _with_num_envs(config: Settings, num_envs: int | None) -> Settings:
    """Returns the settings with an env instance's number of env slots, unless they already set a number."""
    name = "num_envs_per_worker"
    if num_envs is None or name in config.model_fields_set or name not in type(config).model_fields:
        return config
    return config.replace(num_envs_per_worker=num_envs)


def _as_written(config: ConfigModel) -> dict[str, Any]:
    """Returns the settings explicitly set by the user, as plain data."""
    return config.model_dump(mode="json", exclude_unset=True)


def _network(config: AlgorithmConfig, spaces: Spaces) -> list[str]:
    """Returns text lines describing a policy's network architecture; empty for policies without networks."""
    if "model" in config.refused:
        return []
    if config.model.module is not None:
        return [f"observations: unprocessed, to {config.model.module}"]
    leaves = policy_leaves(*spaces, config.model, normalize_observations=config.normalize_observations)
    found = chosen_by_observation(config.model, leaves).items()
    chosen = [f"{name} {value}" for name, value in found if config.learns_values or name != "shared_value"]
    chosen += [f"core {config.model.core} of width {config.model.core_width}"] if config.model.core else []
    parts = [f"observations{f' {path}' if path else ''}: {how}" for path, how in described_leaves(leaves)]
    told = nothing_to_normalize(config, spaces)
    return ([f"model: {', '.join(chosen)}"] if chosen else []) + parts + ([told] if told else [])


def nothing_to_normalize(config: AlgorithmConfig, spaces: Spaces) -> str:
    """Returns a warning if `normalize_observations` has no effect on the given observations, else "".

    Args:
        config: The settings.
        spaces: Observation and action space.
    """
    if "model" in config.refused or config.model.module is not None or not config.normalize_observations:
        return ""
    described = described_leaves(policy_leaves(*spaces, config.model, normalize_observations=True))
    if described != described_leaves(policy_leaves(*spaces, config.model, normalize_observations=False)):
        return ""
    return (
        "normalize_observations: there is nothing to normalize, because no part of the observation is "
        "encoded as a vector; set encode_as: vector for a part under model.observations, or leave out "
        "normalize_observations"
    )
