"""Policies of a training run: one for a single-agent env, one or several for a multi-agent world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from rlrun.engine.algorithm import Algorithm
from rlrun.engine.algorithm_config import SAMPLING, AlgorithmConfig, WorldSamplingSettings
from rlrun.engine.datasets.input_config import DataSettings
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.flow.clock import ClockUnit
from rlrun.engine.league.league_settings import LeagueSettings, SeatSettings
from rlrun.engine.messages.errors import UsageError, did_you_mean
from rlrun.engine.rollout.rollout import DEFAULT_POLICY
from rlrun.engine.settings.config import AdaptiveRate
from rlrun.engine.settings.registry import algorithm_class, load_internal
from rlrun.engine.worlds.mapping import PolicyMapping

if TYPE_CHECKING:
    from rlrun.engine.training.assemble.policy_spec import PolicySpec

POLICY_SPEC = "rlrun.engine.training.assemble.policy_spec:PolicySpec"
"""Import path of the spec of one policy among several."""


@dataclass(frozen=True)
class Policies:
    """The policies of a training run: their algorithms, which agents they act for, and which of them learn.

    Attributes:
        algorithms: Algorithms with their settings, by policy. `sampling` overrides their settings for collecting
            experience.
        sampling: Settings for collecting experience, common to all policies.
        slots: Maximum number of simultaneous agents of each policy in a multi-agent env; by default the number of
            possible agents mapped to the policy.
        mapping: Policy names by pattern of agent ids, or the import path `module:function` of a function from agent ids
            to policies. None if one policy acts for all agents.
        train: Names of the policies that learn, by default all; other policies act with their initial weights.
        seats: Groups of agents for which frozen opponents act (past policies and scripts), with their settings.
        league: Settings of the league (pool and ratings of frozen opponents); used if there are seats.
    """

    algorithms: Mapping[str, Algorithm[Any]]
    sampling: AlgorithmConfig
    slots: Mapping[str, int] = field(default_factory=dict)
    mapping: Mapping[str, str] | str | None = None
    train: tuple[str, ...] = ()
    seats: Mapping[str, SeatSettings] = field(default_factory=dict)
    league: LeagueSettings = field(default_factory=LeagueSettings)

    def __post_init__(self) -> None:
        """Validates that mapping, `train`, seats and slots name existing policies.

        Raises:
            UsageError: A name matches no policy.
        """
        if not self.algorithms:
            raise UsageError("training needs at least one policy")
        for name in (*self.train, *self.slots):
            if name not in self.algorithms and not (name in self.slots and name in self.seats):
                hint = did_you_mean(name, self.algorithms) or f"; must be one of: {', '.join(self.algorithms)}"
                raise UsageError(f"unknown policy {name!r}{hint}")
        for seat, settings in self.seats.items():
            if seat in self.algorithms:
                raise UsageError(f"{seat!r} is the name of both a policy and a seat: rename the seat")
            for path in settings.checkpoints:
                if path in self.algorithms:
                    raise UsageError(
                        f"seats.{seat}.checkpoints: {path!r} is the name of a policy; for a folder, write './{path}'"
                    )
            for name in (settings.plays_against, *settings.selves):
                if name not in self.trained:
                    hint = did_you_mean(name, self.trained) or f"; must be one of: {', '.join(self.trained)}"
                    raise UsageError(f"seats.{seat}: no learning policy is named {name!r}{hint}")

    @classmethod
    def alone(cls, algorithm: Algorithm[Any]) -> Self:
        """Creates `Policies` with only one policy, whose algorithm's config includes the sampling settings."""
        return cls({DEFAULT_POLICY: algorithm}, algorithm.config)

    @classmethod
    def from_specs(
        cls,
        specs: Mapping[str, PolicySpec],
        sampling: AlgorithmConfig,
        mapping: Mapping[str, str] | str | None,
        train: tuple[str, ...],
        seats: Mapping[str, SeatSettings],
        league: LeagueSettings,
    ) -> Self:
        """Creates the policies that a validated spec (experiment description) defines."""
        return cls(
            {policy: spec.learns_by() for policy, spec in specs.items()},
            sampling,
            {policy: spec.slots for policy, spec in specs.items() if spec.slots is not None},
            mapping,
            train,
            seats,
            league,
        )

    def in_env(self, env: EnvConfig) -> Self:
        """Returns the policies with the settings of their algorithms adapted to the env."""
        return replace(self, algorithms={name: each.in_env(env) for name, each in self.algorithms.items()})

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Restores policies from the plain data that `to_data` returned, or from a trial's spec.

        Raises:
            KeyError: The data lacks a key.
            SpecError: The data is not valid.
            UsageError: There is no such algorithm, or the settings name a policy that does not exist.
        """
        if not data.get("policies"):
            found = algorithm_class(data["algorithm"])
            return cls.alone(found(found.Config.parse(data["config"])))
        kind: type[PolicySpec] = load_internal(POLICY_SPEC)
        specs = {name: kind.from_data(each, path=f"policies.{name}") for name, each in dict(data["policies"]).items()}
        sampling = WorldSamplingSettings.parse(data["config"])
        seats = {
            str(name): SeatSettings.parse(each, path=f"seats.{name}")
            for name, each in dict(data.get("seats") or {}).items()
        }
        league = LeagueSettings.parse(data.get("league") or {}, path="league")
        return cls.from_specs(specs, sampling, data.get("mapping"), tuple(data.get("train") or ()), seats, league)

    def to_data(self) -> dict[str, Any]:
        """Converts the policies to plain data, from which `from_data` restores them."""
        if self.is_alone:
            return {"algorithm": self.first.name(), "config": self.first.config.to_data()}
        kind: type[PolicySpec] = load_internal(POLICY_SPEC)
        specs = {
            policy: kind(algorithm=algorithm.name(), config=algorithm.config, slots=self.slots.get(policy))
            for policy, algorithm in self.algorithms.items()
        }
        return {
            "algorithm": self.title,
            "policies": {policy: spec.to_data() for policy, spec in specs.items()},
            "mapping": dict(self.mapping) if isinstance(self.mapping, Mapping) else self.mapping,
            "train": list(self.train),
            **self._seats_to_data(),
            "config": self.sampling.to_data(),
        }

    def _seats_to_data(self) -> dict[str, Any]:
        """Serializes the settings of seats and league; empty without seats."""
        if not self.seats:
            return {}
        return {
            "seats": {seat: settings.to_data() for seat, settings in self.seats.items()},
            "league": self.league.to_data(),
        }

    @property
    def is_alone(self) -> bool:
        """Whether one policy acts for all agents; if so, its algorithm's config includes the sampling settings."""
        return self.sampling is self.first.config and len(self.algorithms) == 1 and not self.seats

    @property
    def title(self) -> str:
        """Names of the algorithms, as a title for display."""
        return " + ".join(dict.fromkeys(algorithm.name() for algorithm in self.algorithms.values()))

    @property
    def in_code(self) -> str:
        """Python source code that creates the algorithms with their settings."""
        if self.is_alone:
            return repr(self.first)
        return ", ".join(f"{policy}: {algorithm!r}" for policy, algorithm in self.algorithms.items())

    def described(self) -> list[str]:
        """Returns lines of text about the league, the agents of each policy, and the policies that do not learn."""
        lines = []
        if self.mapping is not None:
            patterns = self.mapping.items() if isinstance(self.mapping, Mapping) else ()
            shown = ", ".join(f"{pattern} -> {policy}" for pattern, policy in patterns)
            lines.append(f"agents: {shown or f'by {self.mapping}'}")
        lines += [f"policy {policy}: does not learn" for policy in self.algorithms if policy not in self.trained]
        lines += [f"seat {seat}: {settings.described()}" for seat, settings in self.seats.items()]
        return [*lines, f"league: {self.league.described()}"] if self.seats else lines

    def differ_only_in_schedules(self, others: Policies) -> bool:
        """Whether other policies differ from these only in scheduled settings, such as learning rates."""
        if list(self.algorithms) != list(others.algorithms) or self.is_alone != others.is_alone:
            return False
        if (self.roles, self.seats, self.league) != (others.roles, others.seats, others.league):
            return False
        if not self.is_alone and self.sampling != others.sampling:
            return False
        pairs = [(mine, others.algorithms[policy]) for policy, mine in self.algorithms.items()]
        return all(
            type(mine) is type(other) and mine.config.replace(**schedules_of(other.config)) == other.config
            for mine, other in pairs
        )

    @property
    def roles(self) -> tuple[Any, ...]:
        """Roles of the policies (slots, mapping of agents, which ones learn), which a resumed run must not change."""
        selves = {seat: settings.selves for seat, settings in self.seats.items()}
        return self.slots, self.mapping, self.train, selves

    def sampling_together(self) -> dict[str, Algorithm[Any]]:
        """Returns the algorithms by policy, with the common settings for collecting experience in their configs."""
        if self.is_alone or self.is_offline:
            return dict(self.algorithms)
        shared = self.sampling.model_dump(exclude={"rollout_fragment_length"})
        algorithms = {}
        for policy, algorithm in self.algorithms.items():
            config = algorithm.config
            own = {name: value for name, value in shared.items() if name in type(config).model_fields}
            algorithms[policy] = type(algorithm)(config.replace(**own))
        return algorithms

    def learning_in_process(self) -> Policies:
        """Returns a copy of the policies whose learners run in this process on the CPU, which is enough for acting."""
        algorithms = {policy: _learning_in_process(algorithm) for policy, algorithm in self.algorithms.items()}
        sampling = next(iter(algorithms.values())).config if self.is_alone else self.sampling
        return replace(self, algorithms=algorithms, sampling=sampling)

    @property
    def is_offline(self) -> bool:
        """Whether all policies learn only from recorded data, so that no env is stepped."""
        return all(learns_offline(algorithm.config) for algorithm in self.algorithms.values())

    @property
    def steps_per_iteration(self) -> int:
        """Minimum number of steps per iteration: env steps, or SGD steps if policies learn only from recorded data."""
        return steps_per_iteration(self.algorithms[self.trained[0]].config if self.is_offline else self.sampling)

    def check_input(self) -> None:
        """Validates that several policies can learn from their data in one run.

        Raises:
            UsageError: Some policies learn only from data and others in the env, offline policies take different
                numbers of SGD steps, or a setting concerns the env although no env is stepped.
        """
        alone = [policy for policy, algorithm in self.algorithms.items() if learns_offline(algorithm.config)]
        if self.is_alone or not alone:
            return
        if others := [policy for policy in self.algorithms if policy not in alone]:
            raise UsageError(
                f"policy {alone[0]} learns only from data, but policy {others[0]} does not: give each policy "
                "an input whose shares sum to 1, or train them in separate runs"
            )
        if self.seats:
            raise UsageError("leave out seats: if all policies learn from data, no env is stepped")
        usual = WorldSamplingSettings()
        for name in SAMPLING:
            if getattr(self.sampling, name) != getattr(usual, name):
                raise UsageError(
                    f"config.{name}: leave it out, because no env is stepped if all policies learn from data"
                )
        if len({steps_per_iteration(self.algorithms[policy].config) for policy in self.trained}) > 1:
            raise UsageError(
                "policies that learn from data take turns with their SGD steps: give all the same "
                "sgd_steps_per_iteration"
            )

    def agent_mapping(self) -> PolicyMapping:
        """Returns the mapping from a multi-agent env's agents to policies and frozen opponents."""
        return PolicyMapping(self.acting, self.mapping)

    @property
    def trained(self) -> tuple[str, ...]:
        """Names of the policies that learn; the others act with fixed weights."""
        return self.train or tuple(self.algorithms)

    @property
    def acting(self) -> tuple[str, ...]:
        """Names to which agents can be mapped: policies, and seats (groups of agents played by frozen opponents)."""
        return (*self.algorithms, *self.seats)

    def reported_policies(self, env: EnvConfig) -> tuple[str, ...]:
        """Returns the names of the policies with separate metrics in results: all in a multi-agent env, else none."""
        return tuple(self.algorithms) if env.has_many_agents else ()

    @property
    def first(self) -> Algorithm[Any]:
        """Algorithm of the first policy, which is the only one in single-agent envs."""
        return next(iter(self.algorithms.values()))


def _learning_in_process(algorithm: Algorithm[Any]) -> Algorithm[Any]:
    config = algorithm.config
    elsewhere = {name: 0 for name in ("num_learners", "num_gpus") if getattr(config, name)}
    return type(algorithm)(config.replace(**elsewhere)) if elsewhere else algorithm


def schedules_of(config: AlgorithmConfig) -> dict[str, Any]:
    """Returns the scheduled settings of an algorithm (such as learning rates) by name.

    An adaptive learning rate, which the learner keeps, is included with its initial value.
    """
    scheduled = {name: getattr(config, name) for name in config.scheduled_fields()}
    return {name: value.initial if isinstance(value, AdaptiveRate) else value for name, value in scheduled.items()}


def learns_offline(config: AlgorithmConfig) -> bool:
    """Whether an algorithm learns only from recorded data: no env is stepped, and schedules count SGD steps."""
    return isinstance(config, DataSettings) and config.is_offline


def clock_unit_of(algorithm: Algorithm[Any]) -> ClockUnit:
    """Returns the unit of an algorithm's schedules and iterations: SGD steps if it steps no env, else env steps."""
    return "sgd_steps" if learns_offline(algorithm.config) else algorithm.clock_unit


def steps_per_iteration(config: AlgorithmConfig) -> int:
    """Returns the minimum steps per iteration: env steps, or SGD steps if policies learn only from data."""
    if isinstance(config, DataSettings) and config.is_offline:
        return config.sgd_steps_per_iteration
    return config.min_env_steps_per_iteration
