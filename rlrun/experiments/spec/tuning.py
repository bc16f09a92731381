"""Settings of hyperparameter search: trial schedulers, searchers, and restarts of failed trials."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, cast, get_args

from annotated_types import Gt, Le
from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from typing_extensions import override

from rlrun.engine.flow.clock import ClockUnit
from rlrun.engine.messages.explain import is_model, shown, unknown_name
from rlrun.engine.settings.config import ConfigModel, Fraction, NonNegativeInt, PositiveFloat, PositiveInt
from rlrun.engine.settings.metric import Mode
from rlrun.experiments.spec.search_space import KINDS, SearchSpace, find_spaces, is_search_space, nearly_a_space


class OneOf(ConfigModel):
    """Tagged union: a mapping from the chosen name to its settings; a bare name means default settings.

    Subclasses have one field per choice, whose type is the choice's settings or None, and whose default is None.

    Attributes:
        what: Name of the setting in messages, such as "scheduler".
    """

    what: ClassVar[str]

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """Names of the union's choices."""
        return tuple(cls.model_fields)

    @classmethod
    def needs_settings(cls, kind: str) -> bool:
        """Whether a given choice has required settings, so that its bare name is invalid."""
        models = [member for member in get_args(cls.model_fields[kind].annotation) if is_model(member)]
        return any(field.is_required() for model in models for field in model.model_fields.values())

    @property
    def kind(self) -> str:
        """Name of the selected choice."""
        return next(name for name in self.kinds() if getattr(self, name) is not None)

    @property
    def _chosen(self) -> ConfigModel:
        return cast("ConfigModel", getattr(self, self.kind))

    @model_validator(mode="before")
    @classmethod
    def _accept_a_name(cls, data: Any) -> Any:
        """Accepts a bare name, or a name with null, in place of default settings."""
        if isinstance(data, str):
            if data not in cls.kinds():
                raise ValueError(unknown_name(data, cls.kinds(), f"unknown {cls.what}"))
            return {data: {}}
        if not isinstance(data, Mapping):
            names = ", ".join(cls.kinds())
            raise ValueError(f"must be the name of a {cls.what} or a mapping with one ({names}), not {shown(data)}")
        if not data:
            raise ValueError(f"unknown {cls.what}; must be one of: {', '.join(cls.kinds())}")
        if len(data) > 1:
            raise ValueError(f"there can be only one {cls.what}, not {len(data)}: {', '.join(map(str, data))}")
        return {name: {} if settings is None else settings for name, settings in data.items()}

    @override
    def replace(self, **changes: Any) -> Self:
        """Copies this union (a choice and its settings) with changes, and validates the copy.

        Raises:
            SpecError: A change is not valid.
        """
        return self.parse(changes or {self.kind: self._chosen})

    @model_serializer(mode="wrap")
    def _without_the_others(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: settings for name, settings in serialize(self).items() if settings is not None}


TimeAttr = Literal["env_steps", "agent_steps", "sgd_steps", "iteration", "episodes", "time_total_s"]
Quantile = Annotated[float, Gt(0), Le(0.5)]
"""Type of a fraction of a population, above 0 and at most 0.5."""
ReductionFactor = Annotated[float, Gt(1)]
"""Type of the reduction factor eta of successive halving, above 1."""


def _as_space(value: Any) -> SearchSpace:
    """Validates and parses the search space of a mutated setting."""
    if isinstance(value, SearchSpace):
        return value
    if isinstance(value, list | tuple):
        raise ValueError("must be a search space: write {choice: [...]} around the values")
    if hint := nearly_a_space(value, free_form=False):
        raise ValueError(f"unknown search space '{next(iter(value))}'{hint}")
    if not is_search_space(value):
        names = ", ".join(name for name in KINDS if name != "grid_search")
        raise ValueError(f"must be a search space ({names}), not {shown(value)}")
    spaces, mistakes = find_spaces(value)
    if mistakes:
        raise ValueError(mistakes[0].message)
    space = spaces[()]
    if space.is_grid:
        raise ValueError("mutations are random: write choice instead of grid_search")
    return space


Mutation = Annotated[
    SearchSpace,
    PlainValidator(_as_space, json_schema_input_type=dict[str, list[Any]]),  # rlrun.experiments.spec.schema refines it
    PlainSerializer(SearchSpace.to_data),
]
"""Type of the search space of a hyperparameter that a population mutates."""


MUTATIONS_EXAMPLE = {"lr": {"loguniform": [0.0001, 0.01]}}
BOUNDS_EXAMPLE = {"lr": [0.0001, 0.01]}


def _not_empty(example: Mapping[str, Any]) -> AfterValidator:
    def check(entries: dict[str, Any]) -> dict[str, Any]:
        if not entries:
            raise ValueError(f"is empty; for example, {json.dumps(example)}")
        return entries

    return AfterValidator(check)


Mutations = Annotated[dict[str, Mutation], _not_empty(MUTATIONS_EXAMPLE)]
"""Type of PBT's mutations: search spaces of the mutated hyperparameters, by path below `config`."""


def _ascending(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] >= bounds[1]:
        raise ValueError(f"low ({shown(bounds[0])}) must be below high ({shown(bounds[1])})")
    return bounds


Bounds = Annotated[dict[str, Annotated[tuple[float, float], AfterValidator(_ascending)]], _not_empty(BOUNDS_EXAMPLE)]
"""Type of PB2's bounds: ranges `[low, high]` of the mutated hyperparameters, by path below `config`."""


class _RankingSettings(ConfigModel):
    """Settings of a scheduler or searcher: the metric that ranks trials, and its direction."""

    metric: str = "episode_return_mean"
    """Metric that ranks trials."""
    mode: Mode = "max"
    """Whether higher (max) or lower (min) is better."""


class _Timed(ConfigModel):
    """Setting of a scheduler: the result column that measures the training progress of a trial."""

    time_attr: TimeAttr = "env_steps"
    """Result column that measures a trial's progress, and the unit of the scheduler's times."""


class _Limited(_Timed, _RankingSettings):
    """Settings of an early-stopping scheduler with a maximum training time."""

    max_t: PositiveFloat | None = None
    """Maximum training time of a trial, in units of `time_attr`; null for the experiment's stop[time_attr]."""

    def limit(self, stop: Mapping[str, float]) -> float:
        """Maximum training time of a trial, in units of `time_attr`.

        Args:
            stop: The experiment's stop criteria.

        Raises:
            KeyError: Neither `max_t` nor `stop` sets a limit, which validation excludes.
        """
        return stop[self.time_attr] if self.max_t is None else self.max_t


class AshaConfig(_Limited):
    """Settings for asynchronous successive halving (ASHA): at each rung, a trial stops if it is not among the best."""

    grace_period: PositiveFloat | None = None
    """First rung, in units of `time_attr`; no trial stops before it. null for `max_t / reduction_factor**2`."""
    reduction_factor: ReductionFactor = 4
    """Reduction factor eta: a fraction 1/eta of the trials continues past each rung, and each rung is eta times the one
    before."""
    brackets: PositiveInt = 1
    """Number of brackets that trials are divided among; each bracket starts one rung later than the bracket before."""

    def first_rung(self, stop: Mapping[str, float]) -> float:
        """First rung of ASHA in units of `time_attr`, given the experiment's stop criteria."""
        return self.limit(stop) / self.reduction_factor**2 if self.grace_period is None else self.grace_period


class HyperBandConfig(_Limited):
    """Settings for HyperBand: successive halving in which the trials of a bracket wait for each other at rungs."""

    grace_period: PositiveFloat | None = None
    """Lower bound of the first rung of each bracket, in units of `time_attr`. null for
    `max_t / reduction_factor**3`."""
    reduction_factor: ReductionFactor = 3
    """Reduction factor eta: a fraction 1/eta of a bracket's trials continues past each rung."""

    def first_rung(self, stop: Mapping[str, float]) -> float:
        """Lower bound of the first rung of each HyperBand bracket, in units of `time_attr`."""
        return self.limit(stop) / self.reduction_factor**3 if self.grace_period is None else self.grace_period


class BohbConfig(HyperBandConfig):
    """Settings for BOHB's HyperBand scheduler, which passes the trials' scores at each rung to the searcher `bohb`."""


class MedianConfig(_Timed, _RankingSettings):
    """Settings for the median stopping rule: a trial stops if its best score is below the others' median."""

    grace_period: PositiveFloat | None = None
    """Minimum progress before a trial can be stopped, in units of `time_attr`; null for a tenth of stop[time_attr]."""
    min_samples_required: PositiveInt = 3
    """Minimum number of other trials at the same progress; with fewer, no trial is stopped."""

    def first_time(self, stop: Mapping[str, float]) -> float:
        """Minimum progress of a trial before the median rule can stop it, in units of `time_attr`.

        Raises:
            KeyError: Neither `grace_period` nor `stop` sets a value, which validation rules out.
        """
        return stop[self.time_attr] / 10 if self.grace_period is None else self.grace_period


class _Population(_RankingSettings):
    """Settings of population-based schedulers: the worst trials copy the best, and change their hyperparameters."""

    interval_env_steps: PositiveInt | None = None
    """Env steps between two generations; null for trials that learn from recorded data alone."""
    interval_sgd_steps: PositiveInt | None = None
    """SGD steps between two generations of trials that learn from recorded data alone; null for trials in an env."""
    quantile_fraction: Quantile = 0.25
    """Fraction of the population that is replaced at each generation: the worst trials copy as many of the best."""
    synchronous: bool = True
    """Whether members wait for each other at a generation, which makes the run reproducible. Otherwise, each member is
    compared when it arrives."""

    @model_validator(mode="after")
    def _counts_in_one_unit(self) -> Self:
        if (self.interval_env_steps is None) == (self.interval_sgd_steps is None):
            raise ValueError(
                "set exactly one of interval_env_steps and interval_sgd_steps (for trials that learn only from data)"
            )
        return self

    @property
    def time_attr(self) -> ClockUnit:
        """Result column that counts the steps between generations."""
        return "env_steps" if self.interval_sgd_steps is None else "sgd_steps"

    @property
    def interval(self) -> int:
        """Steps between two generations, counted by `time_attr`."""
        interval = self.interval_env_steps or self.interval_sgd_steps
        assert interval is not None, "validation demands one of the two"
        return interval


class PbtConfig(_Population):
    """Settings for population-based training (PBT, arXiv:1711.09846): the worst trials copy the best, then explore."""

    mutations: Mutations = Field(examples=[MUTATIONS_EXAMPLE])
    """Search spaces of the mutated hyperparameters, by path below `config`. Initial values that `config` does not set
    are sampled."""
    resample_probability: Fraction = 0.25
    """Probability that a mutated hyperparameter is resampled. Otherwise, a number is multiplied by a perturbation
    factor, and a choice is replaced by one of its neighbors in the list."""
    perturbation_factors: tuple[PositiveFloat, PositiveFloat] = (0.8, 1.2)
    """Perturbation factors: a mutated number is multiplied by one of the two, at random."""

    @property
    def spaces(self) -> dict[str, SearchSpace]:
        """Search space of each mutated hyperparameter, by path below `config`."""
        return dict(self.mutations)


class Pb2Config(_Population):
    """Settings for population-based bandits (PB2, arXiv:2002.02518): PBT with a Gaussian process bandit."""

    bounds: Bounds = Field(examples=[BOUNDS_EXAMPLE])
    """Ranges `[low, high]` of the mutated hyperparameters, by path below `config`. Initial values that `config` does
    not set are sampled."""
    log_scale: tuple[str, ...] = ()
    """Mutated hyperparameters that are explored on a logarithmic scale, such as lr."""

    @property
    def spaces(self) -> dict[str, SearchSpace]:
        """Search space of each mutated hyperparameter, by path below `config`."""
        kinds = {path: KINDS["loguniform" if path in self.log_scale else "uniform"] for path in self.bounds}
        return {path: SearchSpace(kinds[path], bounds) for path, bounds in self.bounds.items()}


class SchedulerConfig(OneOf):
    """Choice of a trial scheduler (early stopping or PBT); a bare name means default settings."""

    what: ClassVar[str] = "scheduler"

    asha: AshaConfig | None = None
    """Asynchronous successive halving (ASHA)."""
    hyperband: HyperBandConfig | None = None
    """HyperBand: synchronous successive halving in several brackets."""
    median: MedianConfig | None = None
    """Median stopping rule."""
    bohb: BohbConfig | None = None
    """HyperBand as the scheduler of BOHB, together with the searcher bohb."""
    pbt: PbtConfig | None = None
    """Population-based training (PBT)."""
    pb2: Pb2Config | None = None
    """Population-based bandits (PB2)."""

    @property
    def settings(self) -> AshaConfig | HyperBandConfig | MedianConfig | BohbConfig | PbtConfig | Pb2Config:
        """Settings of the chosen scheduler."""
        chosen = self._chosen
        assert isinstance(chosen, AshaConfig | HyperBandConfig | MedianConfig | PbtConfig | Pb2Config)
        return chosen

    @property
    def time_attr(self) -> str:
        """Result column with which the chosen scheduler measures the trials' training progress."""
        return self.settings.time_attr

    @property
    def population(self) -> PbtConfig | Pb2Config | None:
        """Settings of the chosen population-based scheduler (pbt or pb2); None for other schedulers."""
        return self.pbt or self.pb2


class ModelSearchConfig(_RankingSettings):
    """Settings for a model-based searcher, which suggests configurations using a model of the scores so far."""

    max_concurrent: PositiveInt | None = None
    """Maximum number of configurations that run at once. With fewer, each suggestion is based on more results. null for
    as many as the resources allow."""
    startup_trials: PositiveInt = 10
    """Number of random configurations before the model suggests any."""


class RandomSearchConfig(ConfigModel):
    """Random and grid search, the default searcher, which has no settings."""


class SearcherConfig(OneOf):
    """Choice of a searcher, which suggests hyperparameter configurations; a bare name means default settings."""

    what: ClassVar[str] = "searcher"

    optuna: ModelSearchConfig | None = None
    """Optuna's tree-structured Parzen estimator."""
    bohb: ModelSearchConfig | None = None
    """BOHB's kernel density estimator (arXiv:1807.01774), together with the scheduler bohb."""
    random: RandomSearchConfig | None = None
    """Random search, as without a searcher."""

    @property
    def settings(self) -> ModelSearchConfig | None:
        """Settings of the chosen searcher; None for random search, which has no settings."""
        return self.optuna or self.bohb


class FailureConfig(ConfigModel):
    """Settings for restarts after failures."""

    max_restarts: NonNegativeInt = 0
    """Maximum number of restarts of a trial from its newest checkpoint."""
    driver_restarts: NonNegativeInt = 0
    """Maximum number of restarts of the driver, the process of `rlrun train` or `rlrun resume`, after it was killed or
    ended without a message. Experiments of one command share the largest number."""


def kind_of(written: Any) -> str:
    """Name of a spec's scheduler or searcher, which may be written as a bare name or as ``{name: settings}``."""
    return next(iter(written), "") if isinstance(written, dict) else str(written or "")


def kind_settings(written: Any) -> dict[str, Any]:
    """Settings of a spec's scheduler or searcher written as ``{name: settings}``; {} for a bare name."""
    values = list(written.values()) if isinstance(written, dict) else []
    return next((value for value in values if isinstance(value, dict)), {})
