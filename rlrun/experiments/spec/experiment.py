"""Experiments (entries of a spec file) and trials (their training runs)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, SerializeAsAny, model_validator
from typing_extensions import override

from rlrun.engine.algorithm_config import AlgorithmConfig, WorldSamplingSettings
from rlrun.engine.data.action_kind import ACTION_KINDS, DEFAULT_KIND, ActionKind, other_kind
from rlrun.engine.datasets.input_config import DataSettings
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.running_statistics import SETTINGS, statistics_wrappers
from rlrun.engine.league.league_settings import LeagueSettings, SeatSettings
from rlrun.engine.learner.executors.update_executor import UpdateExecutor
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.messages.explain import Location, shown
from rlrun.engine.rollout.worker import ROLLOUT_WORKER
from rlrun.engine.settings.config import ConfigModel, NonEmptyText, NonNegativeInt, Plugins, PositiveFloat, PositiveInt
from rlrun.engine.settings.metric import Metric, Mode, of_policy
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.training.assemble.policies import Policies
from rlrun.engine.training.assemble.policy_spec import PolicySpec
from rlrun.experiments.spec.expansion import (
    PlannedTrial,
    Spaces,
    count,
    expand,
    filled,
    member_seed,
    planned_members,
    planned_trials,
    value_at,
)
from rlrun.experiments.spec.loggers import LoggersConfig
from rlrun.experiments.spec.search_space import SearchSpace, find_spaces
from rlrun.experiments.spec.stages import BeginsConfig
from rlrun.experiments.spec.stop_config import StopConfig, env_steps_at_stop
from rlrun.experiments.spec.trial_names import member_name, short_names, trial_name
from rlrun.experiments.spec.tuning import (
    AshaConfig,
    FailureConfig,
    HyperBandConfig,
    MedianConfig,
    Pb2Config,
    PbtConfig,
    SchedulerConfig,
    SearcherConfig,
)

EVALUATION_METRICS = (
    Metric("evaluation/episode_return_mean", "", "Mean raw return of the evaluation episodes", mode="max"),
    Metric("evaluation/episode_return_std", "", "Standard deviation of the evaluation returns"),
    Metric("evaluation/episode_return_min", "", "Lowest evaluation return", mode="max"),
    Metric("evaluation/episode_return_max", "", "Highest evaluation return", mode="max"),
    Metric("evaluation/episode_len_mean", "env steps", "Mean length of the evaluation episodes"),
)
"""Metrics of every periodic evaluation."""

EVALUATION_COLUMNS = Metric(
    "evaluation/episode_columns/<name>_mean", "", "Mean sum of a column of `env.columns` over the evaluation episodes"
)
"""Additional evaluation metric for each column that the env's config names in `columns`."""

EVALUATION_INFOS = Metric(
    "evaluation/info/<name>", "", "Mean of a number in the info of an evaluation episode's last step, over the episodes"
)
"""Additional evaluation metric for each number that the env reports at the end of an episode, such as a success."""

OTHER_KIND_GAP = "episode_return_gap"
"""Name, without prefix, of the metric for the gap between the returns of greedy and of sampled actions."""

OTHER_KIND_METRICS = tuple(
    Metric(f"evaluation/{kind}/{name}", "", meaning)
    for kind in ACTION_KINDS
    for name, meaning in {
        OTHER_KIND_GAP: (
            f"Distance between the 95% intervals of the mean return with {kind} actions and with "
            "`evaluation.actions`: above 0 if higher, below 0 if lower, 0 if they overlap"
        ),
        "<metric>": (
            f"The same evaluation metric with {kind} actions, for policies that sample discrete actions, if "
            f"`evaluation.actions` is {other_kind(kind)}"
        ),
    }.items()
)
"""Metrics of extra evaluation episodes that swap greedy and sampled actions; they never rank trials."""

_ENDINGS = {
    "win_rate": "won",
    "draw_rate": "drawn",
    "loss_rate": "lost",
    "unbeaten_rate": "not lost (for `expect`, which sets lower bounds of metrics)",
}
_AS = {
    "": "against the opponent of `evaluation.against`",
    "first/": "against it on the side of the world's first agent",
    "second/": "against it on the other side",
}

_MODES: dict[str, Mode | None] = {"draw_rate": None, "loss_rate": "min"}

AGAINST_METRICS = tuple(
    Metric(
        f"evaluation/against/{side}{rate}", "", f"Fraction of games {which} that were {ending}", _MODES.get(rate, "max")
    )
    for side, which in _AS.items()
    for rate, ending in _ENDINGS.items()
)
"""Evaluation metrics of games against a scripted opponent; null for a side that no learning policy plays."""

ORACLE_METRICS = (
    Metric(
        "evaluation/oracle/value_gap",
        "",
        "Mean distance of estimated values from the optimal values",
        mode="min",
    ),
    Metric("evaluation/oracle/policy_gap", "", "Optimality gap of the greedy policy at the initial states", mode="min"),
)
"""Evaluation metrics of `evaluation.oracle`: errors relative to the optimal values."""

GAME_ORACLE_METRICS = (
    Metric(
        "evaluation/oracle/exploitability",
        "",
        "Mean gain per player of a best response (NashConv / 2) to the average policy of the league, or to "
        "the policies",
        mode="min",
    ),
    Metric(
        "evaluation/oracle/negative_exploitability",
        "",
        "Negative exploitability (for `expect`, which sets lower bounds of metrics)",
        mode="max",
    ),
)
"""Evaluation metrics of `evaluation.oracle` in a game of two players."""

AUTO = "auto"
"""Value of a setting that is measured before the trials of a run."""

MAX_TRIALS = 10_000
"""Default maximum number of trials of an experiment."""

EVALUATION_KEYS = tuple(metric.name.removeprefix("evaluation/") for metric in EVALUATION_METRICS)
"""Names of the metrics of periodic evaluations, without the prefix ``evaluation/``."""


def judged_by(spec: Mapping[str, Any]) -> str:
    """Metric by which checkpoints, trials and configurations are ranked.

    The metric is ``checkpoint.best`` if set, else an evaluation metric if there are evaluations. In games, where the
    mean return sums over both sides, the metric is the fraction of games not lost, or the league's Elo rating.

    Args:
        spec: An entry of a spec file or a trial, as plain data, possibly invalid.

    Examples:
        >>> judged_by({}), judged_by({"evaluation": {"every": 10}})
        ('episode_return_mean', 'evaluation/episode_return_mean')
        >>> judged_by({"evaluation": {"against": "minimax"}})
        'evaluation/against/unbeaten_rate'
        >>> judged_by({"policies": {"main": {}}, "seats": {"rival": {"plays_against": "main"}}})
        'league/elo_main'
        >>> judged_by({"train": 5, "policies": 7, "seats": 3})
        'episode_return_mean'
    """
    checkpoint, evaluation = spec.get("checkpoint"), spec.get("evaluation")
    best = checkpoint.get("best") if isinstance(checkpoint, Mapping) else None
    if isinstance(best, str):
        return best
    if isinstance(evaluation, Mapping) and evaluation.get("against") is not None:
        return "evaluation/against/unbeaten_rate"
    trained, policies = spec.get("train"), spec.get("policies")
    learners = [*trained] if isinstance(trained, list | tuple) else []
    learners += policies if isinstance(policies, Mapping) else ()
    if spec.get("seats") and learners:
        return f"league/elo_{learners[0]}"
    return "episode_return_mean" if evaluation is None else "evaluation/episode_return_mean"


def policy_evaluation_metrics(policies: Iterable[str]) -> tuple[Metric, ...]:
    """Evaluation metrics that are reported for each policy of a multi-agent world."""
    return tuple(
        replace(
            metric,
            name=f"evaluation/{of_policy(policy, metric.name.removeprefix('evaluation/'))}",
            meaning=f"{metric.meaning}, of the policy's agents",
        )
        for policy in policies
        for metric in (EVALUATION_METRICS[0], EVALUATION_COLUMNS, EVALUATION_INFOS)
    )


def _is_evaluated(metric: str) -> bool:
    """Whether evaluations report a metric: one that training also reports, or one of games against an opponent."""
    if any(metric == each.name for each in AGAINST_METRICS) or EVALUATION_INFOS.matches(metric):
        return True
    policy = re.fullmatch(r"policies/[^/]+/(.+)", metric)
    return metric in EVALUATION_KEYS if policy is None else policy[1] == "episode_return_mean"


def _counted(seeds: Any) -> Any:
    """Converts a number n to the list of seeds 0 to n - 1."""
    if isinstance(seeds, list | tuple):
        return seeds
    is_number = isinstance(seeds, int | float) and not isinstance(seeds, bool)
    if not is_number or not 0 < seeds <= MAX_TRIALS or seeds % 1:
        raise ValueError(f"must be a number of seeds from 1 to {MAX_TRIALS:,}, or a list of seeds, not {shown(seeds)}")
    return tuple(range(int(seeds)))


def _distinct(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if not seeds:
        raise ValueError("must contain at least one seed")
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seed {next(seed for seed in seeds if seeds.count(seed) > 1)} appears twice")
    return seeds


Seeds = Annotated[tuple[NonNegativeInt, ...], BeforeValidator(_counted), AfterValidator(_distinct)]


class CheckpointConfig(ConfigModel):
    """Settings for a trial's checkpoints: when they are written, and which are kept."""

    every: PositiveInt | None = 25
    """Iterations between two checkpoints; null for no periodic checkpoints."""
    at_end: bool = True
    """Whether a checkpoint is written at the end of the trial."""
    keep: PositiveInt = 3
    """Number of newest checkpoints to keep."""
    best: str | None = "episode_return_mean"
    """Metric whose best checkpoint is also kept; null for none. The default is evaluation/episode_return_mean with
    evaluations, evaluation/against/unbeaten_rate with an opponent, and the first policy's Elo rating in a league
    without one."""


class EvaluationConfig(ConfigModel):
    """Settings for the periodic evaluation on a fixed set of episodes during training."""

    every: PositiveInt = 10
    """Iterations between two evaluations."""
    episodes: PositiveInt = 20
    """Episodes of each evaluation; their seeds are the same in all evaluations."""
    env: EnvConfig | None = None
    """Environment of the evaluations; null for the environment of training."""
    actions: ActionKind = DEFAULT_KIND
    """Actions: greedy takes the most likely action, sampled draws actions as in training. For comparison, policies that
    sample discrete actions also play a quarter as many episodes (at least 5) with the other kind of actions."""
    show: NonNegativeInt = 0
    """Evaluation episodes to keep as text for reports; the env needs the render mode `ansi`."""
    against: NonEmptyText | None = None
    """Scripted opponent in `episodes` additional games: random, one_ply, minimax, mcts, or package.module:Name; null
    for none. In a two-sided world, the policy plays each side in half of the games."""
    oracle: bool = False
    """Whether values and greedy actions are compared with the optimal ones, in a finite env with a known model; in a
    world with a game tree, whether exploitability is computed."""


def actions_of(evaluation: EvaluationConfig | None) -> ActionKind:
    """Kind of actions, greedy or sampled, in a trial's evaluations; the default kind if there are no evaluations."""
    return DEFAULT_KIND if evaluation is None else evaluation.actions


class ResourcesConfig(ConfigModel):
    """Resources of a trial's own process; those of workers and learners are set in `config`."""

    cpus: PositiveFloat = 1.0
    """CPUs of the trial's own process."""


class ExpectConfig(ConfigModel):
    """Targets of a run for `rlrun regress`, such as ``{episode_return_mean: 450, within_env_steps: 150_000}``."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float] = Field(init=False)

    within_env_steps: PositiveInt | None = None
    """Number of env steps within which the expected metrics must be reached; null for the length of the run."""
    within_sgd_steps: PositiveInt | None = None
    """Number of SGD steps within which the expected metrics must be reached, for training from recorded data alone;
    null for the length of the run."""
    within_seconds: PositiveFloat | None = None
    """Seconds of training (`time_total_s`) within which the expected metrics must be reached; null for no limit."""
    seeds: PositiveInt | None = None
    """Number n of seeds to run, 0 to n - 1; null for the seeds of the experiment."""
    passes: PositiveInt | None = None
    """Minimum number of seeds that must reach the metrics; null for two thirds."""
    last_evaluations: PositiveInt | None = None
    """Number of last evaluations whose mean is compared with the expected metrics, for policies that fluctuate; null to
    compare only the final policy."""
    regression_floor: float | None = None
    """Lower end of the published 95% interval of the interquartile mean over seeds. `rlrun regress` warns if the
    interquartile mean is well below it; null for no warning."""

    @model_validator(mode="after")
    def _require_target(self) -> Self:
        if not self.metrics:
            raise ValueError("has no metric; add one, such as episode_return_mean: 450")
        if self.regression_floor is not None and len(self.metrics) > 1:
            raise ValueError("regression_floor applies to a single metric, but `expect` has several; leave it out")
        if self.seeds is not None and self.passes is not None and self.passes > self.seeds:
            raise ValueError(f"passes ({self.passes}) must not exceed seeds ({self.seeds})")
        return self

    def required_passes(self, seeds: int) -> int:
        """Minimum number of seeds, out of `seeds`, that must reach the expected metrics."""
        return -(-2 * seeds // 3) if self.passes is None else self.passes

    @property
    def within_steps(self) -> dict[str, int]:
        """Step limit for reaching the expected metrics, by the metric that counts the steps."""
        limits = {"env_steps": self.within_env_steps, "sgd_steps": self.within_sgd_steps}
        return {metric: limit for metric, limit in limits.items() if limit is not None}

    @property
    def metrics(self) -> dict[str, float]:
        """Lower bound of each expected metric, by name."""
        return dict(self.__pydantic_extra__)


class RunSettings(ConfigModel):
    """Settings of an experiment besides its algorithm, env and `config`."""

    seeds: Seeds = (0,)
    """Seeds, with one trial each: a list, or a number n for the seeds 0 to n - 1."""
    num_samples: PositiveInt = 1
    """Number of samples from random search spaces, at each point of the grid."""
    stop: StopConfig
    """Stop criteria of a trial: metric thresholds, or a plateau; the first criterion that is met stops the trial."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """Checkpoints: when they are written, and which are kept."""
    evaluation: EvaluationConfig | None = None
    """Periodic evaluation during training; null for none."""
    resources: ResourcesConfig = ResourcesConfig()
    """Resources of a trial's own process."""
    expect: ExpectConfig | None = None
    """Targets for `rlrun regress`; null for none."""
    scheduler: SchedulerConfig | None = None
    """Trial scheduler, such as asha or pbt; null for none."""
    searcher: SearcherConfig | None = None
    """Searcher, such as optuna; null for random search."""
    failure: FailureConfig = FailureConfig()
    """Settings for restarting failed trials and the driver."""
    begins: BeginsConfig | None = None
    """Earlier experiment whose final weights each seed starts with; null for fresh weights. In `stages`, `after` is the
    previous stage."""
    storage: NonEmptyText | None = None
    """Path or URI of remote storage, such as s3://bucket/runs, that receives a copy of the run; null for none."""
    output: NonEmptyText | None = None
    """Path of a new data set for the collected steps, in the env's units; null for none. With several trials or
    policies, it is a folder with a data set for each."""
    loggers: LoggersConfig = LoggersConfig()
    """Additional loggers for results: Weights & Biases, MLflow, or custom classes by import path."""
    hooks: Plugins = ()
    """Hooks, which measure a run and may stop it: package.module:Class, or {package.module:Class: SETTINGS}."""

    @property
    def searches(self) -> bool:
        """Whether a searcher suggests configurations one after another, so that trials cannot be planned in advance."""
        return self.searcher is not None and self.searcher.settings is not None

    @property
    def population(self) -> PbtConfig | Pb2Config | None:
        """Population settings of the scheduler (pbt, pb2); None for other schedulers."""
        return None if self.scheduler is None else self.scheduler.population

    def configurations_in(self, spaces: Spaces) -> int:
        """Number of configurations to try for given search spaces: samples times grid points."""
        return self.num_samples if self.searches else count(spaces, self.num_samples)

    @model_validator(mode="after")
    def _check_ranking_metric(self) -> Self:
        if self.expect is None or self.expect.last_evaluations is None:
            return self
        if self.evaluation is None:
            raise ValueError("expect.last_evaluations needs evaluations; add an `evaluation` section")
        if unknown := [metric for metric in self.expect.metrics if not _is_evaluated(metric)]:
            raise ValueError(
                f"expect.last_evaluations supports only evaluation metrics ({', '.join(EVALUATION_KEYS)}, "
                f"{EVALUATION_INFOS.name}), "
                f"not {unknown[0]}"
            )
        return self


class Learning(ConfigModel):
    """Learning part of an experiment: one algorithm in an env, or the policies of a multi-agent world."""

    algorithm: str
    """Name or import path of the algorithm. With several policies, a display name for their algorithms."""
    env: EnvConfig
    """The environment, or the multi-agent world."""
    config: SerializeAsAny[AlgorithmConfig]
    """Settings of the algorithm. With several policies, the sampling settings that they share."""
    policies: dict[str, PolicySpec] = Field(default_factory=dict)
    """Policies of a multi-agent world, by name; empty if there is a single policy, which `algorithm` trains."""
    mapping: dict[str, str] | str | None = None
    """Mapping from agents to policies: policy names by patterns of agent ids, or package.module:function; null if one
    policy acts for all agents."""
    train: tuple[str, ...] = ()
    """Policies that are trained; empty for all."""
    seats: dict[str, SeatSettings] = Field(default_factory=dict)
    """Seats by name: roles that frozen opponents play."""
    league: LeagueSettings | None = None
    """Self-play league; null without seats."""

    @property
    def settings(self) -> dict[Location, AlgorithmConfig]:
        """Algorithm settings, by location in the spec entry."""
        if not self.policies:
            return {("config",): self.config}
        return {("policies", name, "config"): policy.config for name, policy in self.policies.items()}

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Names or import paths of all algorithms."""
        return tuple(dict.fromkeys(policy.algorithm for policy in self.policies.values())) or (self.algorithm,)

    @property
    def needs_ray(self) -> bool:
        """Whether a trial has rollout workers or learners in separate processes, and therefore needs Ray."""
        return bool(self.config.num_workers) or any(config.num_learners for config in self.settings.values())

    @property
    def learns(self) -> Policies:
        """Policies of the trial, with their algorithms and settings."""
        if not self.policies:
            return Policies.alone(algorithm_class(self.algorithm)(self.config))
        league = self.league or LeagueSettings()
        return Policies.from_specs(self.policies, self.config, self.mapping, self.train, self.seats, league)


class TrialSpec(Learning):
    """One training run: an experiment with one seed and one value for each varying setting."""

    name: str
    """Name of the trial, from its number, varying settings and seed: ``000-lr=0.001-seed=0``."""
    index: NonNegativeInt
    """Number of the trial within the experiment, from 0."""
    seed: NonNegativeInt
    """Root seed of the trial."""
    params: dict[str, Any]
    """Values of the settings that vary between the experiment's trials, by shortest unique name."""
    experiment: str
    """Name of the experiment."""
    stop: StopConfig
    """Stop criteria of the trial: bounds by metric, or a plateau; the trial stops at the first one that is reached."""
    checkpoint: CheckpointConfig
    """Checkpoints: when they are written, and which are kept."""
    evaluation: EvaluationConfig | None
    """Periodic evaluation during training; null for none."""
    resources: ResourcesConfig
    """Resources of the trial's own process."""
    expect: ExpectConfig | None
    """Expected results of the trial, which `rlrun regress` checks; null for none."""
    configuration: NonNegativeInt = Field(default_factory=lambda data: data.get("index", 0))
    """Number of the hyperparameter configuration; trials with equal numbers differ only in their seeds."""
    begins: BeginsConfig | None = None
    """Start from the end of the same seed in an earlier experiment; None for fresh weights."""
    population: NonNegativeInt | None = None
    """Seed of the trial's population (pbt, pb2); None if the trial is in no population."""
    max_restarts: NonNegativeInt = 0
    """Maximum number of restarts after failures."""
    output: NonEmptyText | None = None
    """Path of the data set that receives the collected steps; null for none."""
    loggers: LoggersConfig = LoggersConfig()
    """Loggers that also receive the results of the trial."""
    hooks: Plugins = ()
    """Hooks, which measure the trial and may stop it: settings by import path."""
    trials_sharing_update: PositiveInt = 1
    """Number of the experiment's trials that share one compiled update, this trial included. They differ only in seeds
    and scheduled settings; `compile: auto` takes this number into account."""
    update_executor: UpdateExecutor | None = None
    """Executor of updates, chosen for all machines of the run when it starts; null before."""

    @property
    def judged_by(self) -> str:
        """Metric by which this trial is compared with others, and by which its checkpoints are compared."""
        return judged_by(self.model_dump(include={"checkpoint", "evaluation", "train", "policies", "seats"}))

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Restores a trial from `to_data()`; the algorithm determines the config class.

        Raises:
            SpecError: The data is not valid.
            UsageError: There is no such algorithm.
        """
        if not data.get("policies"):
            config = algorithm_class(str(data["algorithm"])).Config.parse(data["config"], path="config")
            return cls.parse({**data, "config": config})
        policies = {
            name: PolicySpec.from_data(policy, path=f"policies.{name}") for name, policy in data["policies"].items()
        }
        sampling = WorldSamplingSettings.parse(data["config"], path="config")
        return cls.parse({**data, "config": sampling, "policies": policies})

    def with_learning(self, learns: Policies) -> Self:
        """Copies this trial with other policies and settings.

        Raises:
            SpecError: The policies or settings are not valid.
            UsageError: There is no such algorithm.
        """
        return self.from_data({**self.to_data(), **learns.to_data()})


class Experiment(RunSettings, Learning):
    """Validated entry of a spec file, which expands into trials."""

    name: NonEmptyText
    """Name of the experiment in the spec file."""
    template: dict[str, Any]
    """The keys ``env``, ``config``, ``policies``, ``mapping``, ``train``, ``seats`` and ``league`` as written, with
    search spaces. In the other fields, search spaces are replaced by their first values."""
    origin: str = ""
    """Source of the experiment for messages: a file, or the defaults that were used."""
    env_warnings: tuple[str, ...] = ()
    """Warnings from the creation of the env."""
    auto: tuple[str, ...] = ()
    """Names of the settings that are measured before the run; until then they have their defaults."""

    @model_validator(mode="after")
    def _check_output(self) -> Self:
        for algorithm in self.algorithms if self.output is not None else ():
            found = algorithm_class(algorithm)
            steps_env = found.clock_unit == "env_steps" and not self.learns.is_offline
            if found.worker_factory != ROLLOUT_WORKER or not steps_env:
                raise ValueError(f"output: {algorithm} does not collect env steps to record; leave it out")
        return self

    @property
    def warnings(self) -> list[str]:
        """Warnings about settings that are valid but probably not intended."""
        found = [*self.env_warnings, *self._statistics_warnings(), self._never_learns(), self._early_stop_warning()]
        return [f"{self.name}: {warning}" for warning in found if warning]

    def _statistics_warnings(self) -> Iterator[str]:
        """Yields a warning for each env wrapper with running statistics, which are in no checkpoint."""
        for name in statistics_wrappers(self.env):
            setting = SETTINGS[name]
            instead = self.config.refused.get(setting, f"use config.{setting} instead")
            yield (
                f"env.wrappers: checkpoints do not contain the statistics of {name}, so resumed runs are not exact, "
                f"and evaluations start with new statistics; {instead}"
            )

    def _never_learns(self) -> str:
        """Warning that the run ends before learning starts; "" if it does not.

        In a world of many agents, where a policy stores a step for each of its agents, the result is always "".
        """
        stop, starts = self.stop.bounds.get("env_steps"), self.config.to_data().get("learning_starts", 0)
        if stop is None or self.env.has_many_agents or stop > starts:
            return ""
        return (
            f"the run stops at {stop:,.0f} env steps, before learning starts at {starts:,}: set "
            "stop.env_steps above config.learning_starts"
        )

    def _early_stop_warning(self) -> str:
        """Warning that the scheduler may stop trials before their first evaluation; "" if it cannot."""
        scheduler = None if self.scheduler is None else self.scheduler.settings
        if self.evaluation is None or not isinstance(scheduler, AshaConfig | HyperBandConfig | MedianConfig):
            return ""
        of_iteration = self._steps_of_iteration(scheduler.time_attr)
        if of_iteration is None:
            return ""
        bounds = self.stop.bounds
        first = scheduler.first_time(bounds) if isinstance(scheduler, MedianConfig) else scheduler.first_rung(bounds)
        evaluated = self.evaluation.every * of_iteration
        if first >= evaluated:
            return ""
        return (
            f"the scheduler may stop trials at {scheduler.time_attr} {first:,.0f}, before their first evaluation at "
            f"{evaluated:,}: lower evaluation.every, or raise grace_period"
        )

    def _steps_of_iteration(self, counter: str) -> int | None:
        """Steps per iteration in a scheduler's unit; None if the unit is seconds or the number is unknown."""
        learns = self.learns
        if counter == "iteration":
            return 1
        if learns.is_offline:
            return learns.steps_per_iteration if counter == "sgd_steps" else None
        if counter != "env_steps":
            return None
        per_update = max(algorithm.config.env_steps_per_update for algorithm in learns.sampling_together().values())
        return env_steps_at_stop(1, per_update, learns.sampling.min_env_steps_per_iteration)

    @property
    def num_configurations(self) -> int:
        """Number of configurations, each run with every seed; for a population-based scheduler, the population size."""
        return self.configurations_in(self.spaces())

    @property
    def num_trials(self) -> int:
        """Total number of trials."""
        return self.num_configurations * len(self.seeds)

    def spaces(self) -> dict[Location, SearchSpace]:
        """Search spaces by location in the entry, such as ``("config", "lr")``."""
        return find_spaces(self.template)[0]

    def mutated(self) -> dict[Location, SearchSpace]:
        """Search spaces of the mutated settings of a population (pbt, pb2), by location in the entry."""
        spaces = {} if self.population is None else self.population.spaces
        return {setting_location(path): space for path, space in spaces.items()}

    def with_measured(self, num_workers: int, num_envs_per_worker: int) -> Self:
        """Copies this experiment with measured numbers of workers and envs in place of ``auto``."""
        numbers = {"num_workers": num_workers, "num_envs_per_worker": num_envs_per_worker}
        measured = {name: numbers[name] for name in self.auto}
        template = {**self.template, "config": {**self.template["config"], **measured}}
        return self.replace(auto=(), config=self.config.replace(**measured), template=template)

    def param_names(self) -> dict[Location, str]:
        """Short name of each varying setting, by location in the entry; the names are keys of trials' `params`."""
        return short_names(dict.fromkeys([*self.spaces(), *self.mutated()]))

    def plan(self) -> Iterator[PlannedTrial]:
        """Yields the number, seed and varying values of each trial; nothing if a searcher suggests the trials."""
        configurations = [] if self.searches else expand(self.spaces(), self.num_samples, self.seeds[0])
        if mutated := self.mutated():
            return planned_members(self.template, configurations, mutated, self.seeds)
        return planned_trials(configurations, self.seeds)

    def trials(self) -> list[TrialSpec]:
        """Creates the experiment's trials; none if a searcher suggests them.

        The trials are the product of samples, grid points and seeds. A population-based scheduler has one population
        per seed, with one member per sample and grid point.

        Raises:
            SpecError: A sampled value is not valid for its field.
        """
        return list(self._planned_trials())

    def _planned_trials(self) -> Iterator[TrialSpec]:
        names, total, sharing = self.param_names(), self.num_trials, self._trials_by_update()
        of: Mapping[Location, Any] | None = None
        for planned in self.plan():
            if of is not planned.values:  # all seeds of a configuration share the values
                of, varied = planned.values, self._varied(planned.values, names)
            yield self._trial(planned, varied, total, sharing[self._update_of(planned.values)])

    def first_trial(self) -> TrialSpec:
        """First trial of the experiment, or an example trial with sampled values if a searcher suggests the trials.

        Raises:
            SpecError: No sampled value is valid for its field.
        """
        if not self.searches:
            return next(self._planned_trials())
        mistake: SpecError | None = None
        for number, values in enumerate(expand(self.spaces(), self.num_samples, self.seeds[0])):
            try:
                return self.trial(values, index=number * len(self.seeds), configuration=number, seed=self.seeds[0])
            except SpecError as error:
                mistake = error
        assert mistake is not None, "num_samples must be at least 1"
        raise mistake

    def trial(self, values: Mapping[Location, Any], *, index: int, configuration: int, seed: int) -> TrialSpec:
        """Creates a trial from values of the varying settings and a seed.

        Args:
            values: Values of the varying settings, by location in the entry.
            index: The trial's number within the experiment.
            configuration: Index of the configuration that has these values, from 0.
            seed: One of the experiment's seeds. A population member's own seed is derived from this one.

        Raises:
            SpecError: A value is not valid for its field.
        """
        planned, total = PlannedTrial(index, configuration, seed, dict(values)), self.num_trials
        sharing = len(self.seeds) if self._update_of(values) else total  # a searcher's later choices are unknown
        return self._trial(planned, self._varied(values, self.param_names()), total, sharing)

    def _trials_by_update(self) -> Counter[str]:
        """Number of trials that share each compiled update, by the key from `_update_of`."""
        return Counter(self._update_of(planned.values) for planned in self.plan())

    def _update_of(self, values: Mapping[Location, Any]) -> str:
        """Key of a configuration's compiled update: the values of all varying settings except scheduled ones."""
        scheduled = [(*place, name) for place, config in self.settings.items() for name in config.scheduled_fields()]
        return ", ".join(
            f"{location}: {value}"
            for location, value in values.items()
            if not any(location[: len(place)] == place for place in scheduled)
        )

    def _varied(self, values: Mapping[Location, Any], names: Mapping[Location, str]) -> dict[str, Any]:
        """Fields of a trial that depend on the configuration."""
        data = filled(self.template, values)
        return {"params": {name: value_at(data, location) for location, name in names.items()}, **self._learning(data)}

    def _learning(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Fields of `Learning` (algorithms, policies, env) for a configuration."""
        settings = type(self.config).parse(data["config"], path=f"{self.name}.config")
        env = EnvConfig.parse(data["env"], path=f"{self.name}.env")
        policies = {
            name: policy.replace(
                config=type(policy.config).parse(
                    data["policies"][name].get("config") or {}, path=f"{self.name}.policies.{name}.config"
                )
            )
            for name, policy in self.policies.items()
        }
        seats = {name: SeatSettings.parse(data["seats"][name], path=f"{self.name}.seats.{name}") for name in self.seats}
        league = LeagueSettings.parse(data.get("league", {}), path=f"{self.name}.league") if seats else None
        rest = {"algorithm": self.algorithm, "mapping": self.mapping, "train": self.train}
        return {"env": env, "config": settings, "policies": policies, "seats": seats, "league": league, **rest}

    def _trial(self, planned: PlannedTrial, varied: Mapping[str, Any], total: int, sharing: int) -> TrialSpec:
        index, member, seed = planned.index, planned.configuration, planned.seed
        is_member = self.population is not None
        shared = RunSettings.model_fields.keys() & TrialSpec.model_fields.keys() - {"output"}
        name = (
            member_name(index, total, seed, member) if is_member else trial_name(index, total, varied["params"], seed)
        )
        if self.begins is not None and isinstance(varied["config"], DataSettings):
            places = {path: _own_set(path, name, total) for path in self.begins.recorded}
            varied = {**varied, "config": varied["config"].reading(places)}
        return TrialSpec(
            name=name,
            output=self.output and _own_set(self.output, name, total),
            index=index,
            seed=member_seed(seed, member) if is_member else seed,
            experiment=self.name,
            **varied,
            **{name: getattr(self, name) for name in shared},
            configuration=planned.configuration,
            population=seed if is_member else None,
            max_restarts=self.failure.max_restarts,
            trials_sharing_update=sharing,
        )

    @override
    def to_data(self) -> dict[str, Any]:
        """Serializes this experiment to an entry of a spec file."""
        settings = {name: value for name, value in super().to_data().items() if name in RunSettings.model_fields}
        algorithm = {} if self.policies else {"algorithm": self.algorithm}
        config = {"config": {**self.template["config"], **dict.fromkeys(self.auto, AUTO)}} if self.auto else {}
        return {**algorithm, **self.template, **config, **settings}


def _own_set(path: str, trial: str, total: int) -> str:
    """Path of a trial's own data set, in the folder that all trials name; for a single trial, the folder itself."""
    return str(Path(path, trial if total > 1 else "").absolute())


def setting_location(path: str) -> Location:
    """Converts the dotted path of a setting that a population mutates to its location in the spec entry.

    Examples:
        >>> setting_location("replay.alpha"), setting_location("policies.prey.config.lr")
        (('config', 'replay', 'alpha'), ('policies', 'prey', 'config', 'lr'))
    """
    steps = tuple(path.split("."))
    return steps if steps[0] == "policies" else ("config", *steps)
