"""Settings of schedulers, searchers and failures: what stops, changes, chooses and restarts trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Gt, Le
from pydantic import AfterValidator, PlainSerializer, PlainValidator, model_validator

from rlrun.config import ConfigModel, Fraction, NonNegativeInt, PositiveFloat, PositiveInt
from rlrun.explain import shown
from rlrun.spec.one_of import OneOf
from rlrun.spec.search_space import KINDS, SearchSpace, find_spaces, is_search_space, nearly_a_space

Mode = Literal["max", "min"]
TimeAttr = Literal["env_steps", "agent_steps", "sgd_steps", "iteration", "episodes", "time_total_s"]
Quantile = Annotated[float, Gt(0), Le(0.5)]
"""A fraction of a population, above 0 and at most half."""
ReductionFactor = Annotated[float, Gt(1)]
"""A number above 1."""


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
        raise ValueError("a mutation is drawn at random: write choice instead of grid_search")
    return space


Mutation = Annotated[
    SearchSpace,
    PlainValidator(_as_space, json_schema_input_type=dict[str, list[Any]]),  # rlrun.spec.schema refines it
    PlainSerializer(SearchSpace.to_data),
]
"""The search space of a setting that a population changes."""


def _not_empty(example: str) -> AfterValidator:
    def check(entries: dict[str, Any]) -> dict[str, Any]:
        if not entries:
            raise ValueError(f"is empty: add for instance {example}")
        return entries

    return AfterValidator(check)


Mutations = Annotated[dict[str, Mutation], _not_empty("lr: {loguniform: [1e-5, 1e-2]}")]
"""Search spaces of mutated settings, by path."""


def _ascending(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] >= bounds[1]:
        raise ValueError(f"low ({shown(bounds[0])}) must be below high ({shown(bounds[1])})")
    return bounds


Bounds = Annotated[
    dict[str, Annotated[tuple[float, float], AfterValidator(_ascending)]], _not_empty("lr: [1e-5, 1e-2]")
]
"""Ranges `[low, high]` of mutated settings, by path."""


class _Judging(ConfigModel):
    """The metric by which trials are compared."""

    metric: str = "episode_return_mean"
    """Metric by which trials are compared."""
    mode: Mode = "max"
    """Whether higher values are better (max) or lower ones (min)."""


class _Timed(ConfigModel):
    """The unit of a trial's progress."""

    time_attr: TimeAttr = "env_steps"
    """Unit of a trial's progress."""


class _Limited(_Timed, _Judging):
    """Early stopping that lets the best trials run up to a limit."""

    max_t: PositiveFloat | None = None
    """Limit of the best trials, in `time_attr`; null for the experiment's stop[time_attr]."""

    def limit(self, stop: Mapping[str, float]) -> float:
        """Limit of the best trials, in `time_attr`.

        Args:
            stop: The experiment's stop criteria.

        Raises:
            KeyError: Neither `max_t` nor `stop` has it, which validation excludes.
        """
        return stop[self.time_attr] if self.max_t is None else self.max_t


class AshaConfig(_Limited):
    """Asynchronous successive halving: a trial continues past a rung if it is among the best that have reached it."""

    grace_period: PositiveFloat | None = None
    """The first rung, in `time_attr`; no trial is stopped before it. null for `max_t` / `reduction_factor`**2."""
    reduction_factor: ReductionFactor = 4
    """Reduction factor eta: the fraction 1/eta of trials continues past a rung, and each rung is eta times the last."""
    brackets: PositiveInt = 1
    """Number of brackets that trials are divided among; each begins one rung later than the one before it."""

    def first_rung(self, stop: Mapping[str, float]) -> float:
        """The first rung, in `time_attr`, for the experiment's stop criteria."""
        return self.limit(stop) / self.reduction_factor**2 if self.grace_period is None else self.grace_period


class HyperBandConfig(_Limited):
    """HyperBand: brackets of successive halving, whose trials wait for each other at every rung."""

    grace_period: PositiveFloat | None = None
    """Minimum of a bracket's first rung, in `time_attr`. null for `max_t` / `reduction_factor`**3."""
    reduction_factor: ReductionFactor = 3
    """Reduction factor eta: the fraction 1/eta of a bracket's trials continues past a rung."""

    def first_rung(self, stop: Mapping[str, float]) -> float:
        """Minimum of a bracket's first rung, in `time_attr`, for the experiment's stop criteria."""
        return self.limit(stop) / self.reduction_factor**3 if self.grace_period is None else self.grace_period


class BohbConfig(HyperBandConfig):
    """HyperBand which reports the trials' results at each rung to the searcher bohb."""


class MedianConfig(_Timed, _Judging):
    """Median stopping rule: stops a trial whose best result is below the median of the others' running means."""

    grace_period: PositiveFloat | None = None
    """Progress before which no trial is stopped, in `time_attr`; null for a tenth of stop[time_attr]."""
    min_samples_required: PositiveInt = 3
    """Minimum of other trials with the same progress before one is stopped."""

    def first_time(self, stop: Mapping[str, float]) -> float:
        """Minimum progress before a trial is stopped, in `time_attr`, for the experiment's stop criteria.

        Raises:
            KeyError: Neither `grace_period` nor `stop` has it, which validation excludes.
        """
        return stop[self.time_attr] / 10 if self.grace_period is None else self.grace_period


class _Population(_Judging):
    """A population whose worst members copy the weights of its best ones, and change settings."""

    interval_env_steps: PositiveInt
    """Env steps between two generations."""
    quantile_fraction: Quantile = 0.25
    """Fraction of the population that is replaced, and fraction that is copied from."""
    synchronous: bool = True
    """Whether a generation waits for all members, which makes the run reproducible; else members are compared as they
    arrive."""


class PbtConfig(_Population):
    """Population-based training (arXiv:1711.09846): the worst copy the best and perturb their settings."""

    mutations: Mutations
    """Settings that change, by path below `config`, each with its search space. The initial value of a setting that
    `config` does not state is drawn."""
    resample_probability: Fraction = 0.25
    """Probability that a setting is resampled instead of being multiplied, or moved to a neighbour."""
    perturbation_factors: tuple[PositiveFloat, PositiveFloat] = (0.8, 1.2)
    """Factors by one of which a number is multiplied."""

    @property
    def spaces(self) -> dict[str, SearchSpace]:
        """Search space of each setting that changes, by path below `config`."""
        return dict(self.mutations)


class Pb2Config(_Population):
    """Population-based bandits (arXiv:2002.02518): as pbt, but new settings come from a model of past improvements."""

    bounds: Bounds
    """Numbers that change, by path below `config`, each with its `[low, high]`. The initial value of a number that
    `config` does not state is drawn."""
    log_scale: tuple[str, ...] = ()
    """The numbers among them that are explored on a logarithmic scale, such as lr."""

    @property
    def spaces(self) -> dict[str, SearchSpace]:
        """Search space of each setting that changes, by path below `config`."""
        kinds = {path: KINDS["loguniform" if path in self.log_scale else "uniform"] for path in self.bounds}
        return {path: SearchSpace(kinds[path], bounds) for path, bounds in self.bounds.items()}


class SchedulerConfig(OneOf):
    """Scheduler, which stops or changes running trials; a bare name stands for its defaults."""

    what: ClassVar[str] = "scheduler"

    asha: AshaConfig | None = None
    """Asynchronous successive halving."""
    hyperband: HyperBandConfig | None = None
    """Brackets of synchronous successive halving."""
    median: MedianConfig | None = None
    """Median stopping rule."""
    bohb: BohbConfig | None = None
    """HyperBand for the searcher bohb."""
    pbt: PbtConfig | None = None
    """Population-based training."""
    pb2: Pb2Config | None = None
    """Population-based bandits."""

    @property
    def settings(self) -> AshaConfig | HyperBandConfig | MedianConfig | BohbConfig | PbtConfig | Pb2Config:
        """Settings of the chosen scheduler."""
        chosen = self._chosen
        assert isinstance(chosen, AshaConfig | HyperBandConfig | MedianConfig | PbtConfig | Pb2Config)
        return chosen

    @property
    def time_attr(self) -> str:
        """Unit of a trial's progress for the chosen scheduler."""
        settings = self.settings
        return "env_steps" if isinstance(settings, _Population) else settings.time_attr

    @property
    def population(self) -> PbtConfig | Pb2Config | None:
        """Settings of pbt or pb2; None for other schedulers."""
        return self.pbt or self.pb2


class ModelSearchConfig(_Judging):
    """A searcher with a model of finished configurations, from which it suggests the next ones."""

    max_concurrent: PositiveInt | None = None
    """Bound of configurations that run at once: with fewer it learns more from each; null for as many as fit."""
    startup_trials: PositiveInt = 10
    """Number of random configurations before the model is used."""


class RandomSearchConfig(ConfigModel):
    """Random draws, and every point of grids, as without a searcher. It has no settings."""


class SearcherConfig(OneOf):
    """Searcher, which chooses the values of search spaces; a bare name stands for its defaults."""

    what: ClassVar[str] = "searcher"

    optuna: ModelSearchConfig | None = None
    """Optuna's tree-structured Parzen estimator."""
    bohb: ModelSearchConfig | None = None
    """BOHB's density model (arXiv:1807.01774), together with the scheduler bohb."""
    random: RandomSearchConfig | None = None
    """Random draws, as without a searcher."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_hyperopt(cls, data: Any) -> Any:
        """Validation error for the removed searcher hyperopt, which old specs may have, with its successor."""
        if data == "hyperopt" or (isinstance(data, Mapping) and "hyperopt" in data):
            raise ValueError(
                "the searcher hyperopt is gone: write optuna, which takes the same settings. A run that began with "
                "hyperopt cannot go on; `rlrun report` and `rlrun show` still tell what its trials have reached"
            )
        return data

    @property
    def settings(self) -> ModelSearchConfig | None:
        """Settings of the chosen searcher; None for random search, which has no settings."""
        return self.optuna or self.bohb


class FailureConfig(ConfigModel):
    """Handling of failed trials."""

    max_restarts: NonNegativeInt = 0
    """Maximum number of restarts of a trial, from its newest checkpoint, before it counts as failed."""
