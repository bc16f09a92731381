"""Validation of a spec entry's scheduler and searcher against search spaces, config, stop criteria and each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.messages.explain import Location, Mistake, dotted
from rlrun.engine.training.assemble.policies import learns_offline, steps_per_iteration
from rlrun.experiments.spec.expansion import Spaces, count
from rlrun.experiments.spec.experiment import RunSettings, judged_by
from rlrun.experiments.spec.search_space import SearchSpace
from rlrun.experiments.spec.tuning import (
    AshaConfig,
    BohbConfig,
    HyperBandConfig,
    MedianConfig,
    ModelSearchConfig,
    Pb2Config,
    PbtConfig,
)


def check_tuning(settings: RunSettings, configs: Mapping[Location, AlgorithmConfig], spaces: Spaces) -> list[Mistake]:
    """Validates the scheduler and searcher of a spec entry.

    Args:
        settings: The entry's settings other than algorithms, policies and env.
        configs: The entry's configs by location, in which the first value of each search space replaces the space.
        spaces: The entry's search spaces, by location.

    Returns:
        Mistakes, with locations in the entry.
    """
    mistakes = [*_searcher_mistakes(settings, spaces), *_partner_mistakes(settings)]
    if any(map(learns_offline, configs.values())):
        mistakes += _data_mistakes(settings)
    if settings.scheduler is None:
        return mistakes
    scheduler = settings.scheduler.settings
    where: Location = ("scheduler", settings.scheduler.kind)
    if isinstance(scheduler, PbtConfig | Pb2Config):
        return [*mistakes, *_population_mistakes(settings, scheduler, where, configs, spaces)]
    trials = settings.configurations_in(spaces) * len(settings.seeds)
    if trials == 1:
        message = (
            f"{settings.scheduler.kind} compares trials, but there is only one: add a search space and num_samples"
        )
        mistakes.append(Mistake(where, message))
    return [*mistakes, *_time_mistakes(settings, scheduler, where, trials)]


def _searcher_mistakes(settings: RunSettings, spaces: Spaces) -> Iterator[Mistake]:
    """Yields mistakes in the settings of the searcher."""
    if settings.searcher is None or settings.searcher.settings is None:
        return
    name = settings.searcher.kind
    if settings.scheduler is not None and settings.scheduler.population is not None:
        message = (
            f"{settings.scheduler.kind} chooses the settings itself: leave out the searcher, or use a "
            "scheduler such as asha"
        )
        yield Mistake(("searcher",), message)
        return
    grids = [location for location, space in spaces.items() if space.is_grid]
    for location in grids:
        yield Mistake(
            (*location, "grid_search"), f"{name} chooses the values: write choice, or leave out searcher", True
        )
    if not spaces:
        yield Mistake(("searcher",), f"{name} has nothing to choose: add a search space below config or env")
    elif not grids and settings.num_samples == 1:
        message = f"{name} needs several suggestions: set num_samples above 1"
        yield Mistake(("searcher",), message)


def _data_mistakes(settings: RunSettings) -> Iterator[Mistake]:
    """Yields mistakes for trials that learn from data alone, and neither step an env nor have returns in training."""
    scheduler = settings.scheduler
    if scheduler is not None and scheduler.population is None and scheduler.time_attr == "env_steps":
        yield Mistake(("scheduler", scheduler.kind, "time_attr"), "no env is stepped: use sgd_steps")
    for key, chosen in (("scheduler", scheduler), ("searcher", settings.searcher)):
        if chosen is not None and getattr(chosen.settings, "metric", "") == judged_by({}):
            message = "trials that learn from data have no episodes: add evaluation, or use another metric"
            yield Mistake((key, chosen.kind, "metric"), message)


def _partner_mistakes(settings: RunSettings) -> Iterator[Mistake]:
    """Yields mistakes for bohb used as only a scheduler or only a searcher; both require each other."""
    scheduler = None if settings.scheduler is None else settings.scheduler.bohb
    searcher = None if settings.searcher is None else settings.searcher.bohb
    if scheduler is not None and searcher is None:
        message = "needs the searcher of the same name: add searcher: bohb, or use scheduler: hyperband"
        yield Mistake(("scheduler", "bohb"), message)
    if searcher is not None and scheduler is None and not (settings.scheduler and settings.scheduler.population):
        instead = "instead of the current one" if settings.scheduler else "with it"
        message = f"needs the scheduler of the same name: use scheduler: bohb {instead}, or searcher: optuna"
        yield Mistake(("searcher", "bohb"), message)
    if scheduler is not None and searcher is not None:
        yield from _disagreements(scheduler, searcher)


def _disagreements(scheduler: BohbConfig, searcher: ModelSearchConfig) -> Iterator[Mistake]:
    for name in ("metric", "mode"):
        ours, theirs = getattr(searcher, name), getattr(scheduler, name)
        if ours != theirs:
            message = f"the searcher and the scheduler bohb must have the same {name}, not {ours} and {theirs}"
            yield Mistake(("searcher", "bohb", name), message)


def _time_mistakes(
    settings: RunSettings, scheduler: AshaConfig | HyperBandConfig | MedianConfig, where: Location, trials: int
) -> Iterator[Mistake]:
    """Yields mistakes in a scheduler's time settings: rungs, grace periods and limits."""
    counter = scheduler.time_attr
    ends = settings.stop.bounds.get(counter)
    missing = f"is required unless stop has {counter}: set it, or add {counter} to stop"
    if isinstance(scheduler, MedianConfig):
        if scheduler.grace_period is None and ends is None:
            yield Mistake((*where, "grace_period"), missing)
        if scheduler.grace_period is not None and ends is not None and scheduler.grace_period >= ends:
            message = f"must be below stop.{counter} ({_number(ends)}), not {_number(scheduler.grace_period)}"
            yield Mistake((*where, "grace_period"), message)
        if trials <= scheduler.min_samples_required:
            message = f"must be below the number of trials ({trials}), or none is ever stopped"
            yield Mistake((*where, "min_samples_required"), message)
        return
    if scheduler.max_t is None and ends is None:
        yield Mistake((*where, "max_t"), missing)
        return
    limit, first = scheduler.limit(settings.stop.bounds), scheduler.first_rung(settings.stop.bounds)
    limits = f"{f'stop.{counter}' if scheduler.max_t is None else 'max_t'} ({_number(limit)})"
    if first >= limit:
        yield Mistake((*where, "grace_period"), f"must be below {limits}, not {_number(first)}")
    elif isinstance(scheduler, AshaConfig):
        last = first * scheduler.reduction_factor ** (scheduler.brackets - 1)
        if last >= limit:
            message = f"the first rung of the last bracket, {_number(last)}, must be below {limits}"
            yield Mistake((*where, "brackets"), message)


def _population_mistakes(
    settings: RunSettings,
    population: PbtConfig | Pb2Config,
    where: Location,
    configs: Mapping[Location, AlgorithmConfig],
    spaces: Spaces,
) -> Iterator[Mistake]:
    """Yields mistakes in the settings of population-based schedulers."""
    if count(spaces, settings.num_samples) == 1:
        message = "a population of one cannot learn from others: set num_samples to the number of members"
        yield Mistake(where, message)
    for location in spaces:
        place = next((place for place in configs if location[: len(place)] == place), None)
        if place is None or type(configs[place]).shapes_parameters(dotted(location[len(place) :])):
            message = "cannot vary in a population, because members copy each other's weights"
            yield Mistake(location, message)
    yield from _interval_mistakes(settings, population, where, configs, spaces)


def _interval_mistakes(
    settings: RunSettings,
    population: PbtConfig | Pb2Config,
    where: Location,
    configs: Mapping[Location, AlgorithmConfig],
    spaces: Spaces,
) -> Iterator[Mistake]:
    """Yields mistakes in the interval between a population's generations, which the clock of its trials counts."""
    is_offline = any(map(learns_offline, configs.values()))
    unit, interval = population.time_attr, population.interval
    written: Location = (*where, f"interval_{unit}")
    if is_offline != (unit == "sgd_steps"):
        message = (
            "no env is stepped: use interval_sgd_steps"
            if is_offline
            else "the trials step an env: use interval_env_steps"
        )
        yield Mistake(written, message)
        return
    if is_offline:
        between, field = "SGD steps of an iteration", "sgd_steps_per_iteration"
        least = max(map(steps_per_iteration, filter(learns_offline, configs.values())))
    else:
        between, field = "env steps between two updates", "train_batch_size"
        least = configs["config",].env_steps_per_update
    largest = max([least, *_values_of(field, population.spaces, spaces)])
    every = largest * settings.evaluation.every if settings.evaluation is not None else 0
    if interval < largest:
        yield Mistake(written, f"must be at least the {between} ({largest:,}), not {interval:,}")
    elif (ends := settings.stop.bounds.get(unit)) is not None and interval >= ends:
        message = f"must be below stop.{unit} ({_number(ends)}), not {interval:,}, or no generation would ever end"
        yield Mistake(written, message)
    elif is_offline and population.metric.startswith("evaluation/") and every > largest and interval % every:
        message = f"must be a multiple of the SGD steps between two evaluations ({every:,}), not {interval:,}"
        yield Mistake(written, message)


def _number(value: float) -> str:
    return f"{value:,.10g}"


def _values_of(field: str, mutations: Mapping[str, SearchSpace], spaces: Spaces) -> list[int]:
    """Possible values of an integer setting in the config; for ranges, the test values of the search space."""
    found = [space for location, space in spaces.items() if location == ("config", field)]
    found += [space for path, space in mutations.items() if path == field]
    return [int(value) for space in found for _, value in space.probes()]
