"""What a spec says of schedulers, searchers and failures: who stops, changes, chooses and restarts trials."""

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
"""A share of a population, above 0 and at most half."""
ReductionFactor = Annotated[float, Gt(1)]
"""A number above 1."""


def _as_space(value: Any) -> SearchSpace:
    """Reads the search space of a mutation."""
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
    PlainValidator(_as_space, json_schema_input_type=dict[str, list[Any]]),  # rlrun.spec.schema knows it better
    PlainSerializer(SearchSpace.to_data),
]
"""A search space as a value."""


def _mutates_something(mutations: dict[str, SearchSpace]) -> dict[str, SearchSpace]:
    if not mutations:
        raise ValueError("is empty: add for instance lr: {loguniform: [1e-5, 1e-2]}")
    return mutations


Mutations = Annotated[dict[str, Mutation], AfterValidator(_mutates_something)]
"""Search spaces by the paths of what they change."""


def _ascending(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] >= bounds[1]:
        raise ValueError(f"low ({shown(bounds[0])}) must be below high ({shown(bounds[1])})")
    return bounds


def _bounds_something(bounds: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    if not bounds:
        raise ValueError("is empty: add for instance lr: [1e-5, 1e-2]")
    return bounds


Bounds = Annotated[
    dict[str, Annotated[tuple[float, float], AfterValidator(_ascending)]], AfterValidator(_bounds_something)
]
"""The ends of ranges by the paths of what is searched in them."""


class _Judging(ConfigModel):
    """By what trials are compared."""

    metric: str = "episode_return_mean"
    """Metric by which trials are compared."""
    mode: Mode = "max"
    """Whether more of it is better (max) or less (min)."""


class _Timed(_Judging):
    """By what trials are compared, and when."""

    time_attr: TimeAttr = "env_steps"
    """What a trial's progress is counted in."""


class _Limited(_Timed):
    """A rule that lets the best trials run up to a limit."""

    max_t: PositiveFloat | None = None
    """How far the best trials run, in `time_attr`; null for the experiment's stop[time_attr]."""

    def limit(self, stop: Mapping[str, float]) -> float:
        """Returns how far the best trials run, in `time_attr`.

        Args:
            stop: The experiment's.

        Raises:
            KeyError: If neither says it; a checked experiment does.
        """
        return stop[self.time_attr] if self.max_t is None else self.max_t


class AshaConfig(_Limited):
    """Asynchronous successive halving: a trial goes on past a rung if it is among the best that have come to it."""

    grace_period: PositiveFloat | None = None
    """The first rung, in `time_attr`; no trial is stopped before it. null for `max_t` / `reduction_factor`**2."""
    reduction_factor: ReductionFactor = 4
    """One in so many trials goes on past a rung, and each rung is so many times as far as the one before."""
    brackets: PositiveInt = 1
    """Sets of rungs that trials are dealt to; each begins one rung later than the one before it."""

    def first_rung(self, stop: Mapping[str, float]) -> float:
        """Returns where the first rung is, in `time_attr`, given the experiment's stop."""
        return self.limit(stop) / self.reduction_factor**2 if self.grace_period is None else self.grace_period


class HyperBandConfig(_Limited):
    """HyperBand: brackets of successive halving, whose trials wait for each other at every rung."""

    grace_period: PositiveFloat | None = None
    """No bracket has its first rung before it, in `time_attr`. null for `max_t` / `reduction_factor`**3."""
    reduction_factor: ReductionFactor = 3
    """One in so many trials of a bracket goes on past a rung."""

    def first_rung(self, stop: Mapping[str, float]) -> float:
        """Returns where the first rung of any bracket may be, in `time_attr`, given the experiment's stop."""
        return self.limit(stop) / self.reduction_factor**3 if self.grace_period is None else self.grace_period


class BohbConfig(HyperBandConfig):
    """HyperBand which tells the searcher bohb how trials stand at each rung."""


class MedianConfig(_Timed):
    """Stops a trial whose best result is below the median of the other trials' running means."""

    grace_period: PositiveFloat | None = None
    """How far every trial runs, in `time_attr`; null for a tenth of the experiment's stop[time_attr]."""
    min_samples_required: PositiveInt = 3
    """Other trials that must have come as far before one is stopped."""

    def first_time(self, stop: Mapping[str, float]) -> float:
        """Returns how far every trial runs, in `time_attr`, given the experiment's stop.

        Raises:
            KeyError: If neither says it; a checked experiment does.
        """
        return stop[self.time_attr] / 10 if self.grace_period is None else self.grace_period


class _Population(_Judging):
    """A population whose worst members take over the weights of its best ones, with other settings."""

    interval_env_steps: PositiveInt
    """Env steps between two generations."""
    quantile_fraction: Quantile = 0.25
    """Share of the population that is replaced, and share that is copied from."""
    synchronous: bool = True
    """Whether a generation waits for all members, which makes the run repeatable; else each is judged as it comes."""


class PbtConfig(_Population):
    """Population-based training (arXiv:1711.09846): the worst copy the best and change their settings at random."""

    mutations: Mutations
    """Settings that change, by their path below `config`, each with the search space it is drawn from. A setting that
    `config` does not state starts with a draw."""
    resample_probability: Fraction = 0.25
    """How often a setting is drawn anew instead of being multiplied, or moved to a neighbour."""
    perturbation_factors: tuple[PositiveFloat, PositiveFloat] = (0.8, 1.2)
    """By one of these a number is multiplied."""

    @property
    def spaces(self) -> dict[str, SearchSpace]:
        """Search space of each setting that changes, by its path below `config`."""
        return dict(self.mutations)


class Pb2Config(_Population):
    """Population-based bandits (arXiv:2002.02518): as pbt, but new settings come from a model of what paid so far."""

    bounds: Bounds
    """Numbers that change, by their path below `config`, each with its `[low, high]`. One that `config` does not state
    starts with a draw."""
    log_scale: tuple[str, ...] = ()
    """Those of them that are explored by their logarithm, such as lr."""

    @property
    def spaces(self) -> dict[str, SearchSpace]:
        """Search space of each setting that changes, by its path below `config`."""
        kinds = {path: KINDS["loguniform" if path in self.log_scale else "uniform"] for path in self.bounds}
        return {path: SearchSpace(kinds[path], bounds) for path, bounds in self.bounds.items()}


class SchedulerConfig(OneOf):
    """What stops or changes trials while they run; a bare name stands for its defaults."""

    what: ClassVar[str] = "scheduler"

    asha: AshaConfig | None = None
    """Asynchronous successive halving."""
    hyperband: HyperBandConfig | None = None
    """Brackets of synchronous successive halving."""
    median: MedianConfig | None = None
    """Stops what is below the median."""
    bohb: BohbConfig | None = None
    """HyperBand for the searcher bohb."""
    pbt: PbtConfig | None = None
    """Population-based training."""
    pb2: Pb2Config | None = None
    """Population-based bandits."""

    @property
    def settings(self) -> AshaConfig | HyperBandConfig | MedianConfig | BohbConfig | PbtConfig | Pb2Config:
        """Settings of the one that is chosen."""
        chosen = self._chosen
        assert isinstance(chosen, AshaConfig | HyperBandConfig | MedianConfig | PbtConfig | Pb2Config)
        return chosen

    @property
    def time_attr(self) -> str:
        """What the chosen one counts a trial's progress in."""
        settings = self.settings
        return "env_steps" if isinstance(settings, _Population) else settings.time_attr

    @property
    def population(self) -> PbtConfig | Pb2Config | None:
        """Settings of pbt or pb2; None if it is another one."""
        return self.pbt or self.pb2


class ModelSearchConfig(_Judging):
    """A searcher that learns from finished configurations which ones to try next."""

    max_concurrent: PositiveInt | None = None
    """Configurations that may run at once: fewer let it learn more from each; null for as many as fit."""
    startup_trials: PositiveInt = 10
    """Configurations that are drawn at random before it begins to model."""


class RandomSearchConfig(ConfigModel):
    """Random draws, and every point of grids: what there is without a searcher. It has no settings."""


class SearcherConfig(OneOf):
    """What chooses the values of search spaces; a bare name stands for its defaults."""

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
        """Names the successor of a searcher that there was; the specs of former runs name it, too."""
        if data == "hyperopt" or (isinstance(data, Mapping) and "hyperopt" in data):
            raise ValueError(
                "the searcher hyperopt is gone: write optuna, which takes the same settings. A run that began with "
                "hyperopt cannot go on; `rlrun report` and `rlrun show` still tell what its trials have reached"
            )
        return data

    @property
    def settings(self) -> ModelSearchConfig | None:
        """Settings of the one that is chosen; None for random, which has none."""
        return self.optuna or self.bohb


class FailureConfig(ConfigModel):
    """What becomes of a trial that fails."""

    max_restarts: NonNegativeInt = 0
    """How often it is started again from its newest checkpoint before it counts as failed."""
