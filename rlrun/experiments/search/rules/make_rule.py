"""Factory of scheduling rules from a spec's scheduler settings."""

from __future__ import annotations

from collections.abc import Mapping

from rlrun.experiments.search.rules.asha import Asha
from rlrun.experiments.search.rules.hyperband import HyperBand
from rlrun.experiments.search.rules.median import Median
from rlrun.experiments.search.rules.rule import Measure, Rule
from rlrun.experiments.spec.tuning import AshaConfig, HyperBandConfig, MedianConfig, SchedulerConfig


def make_rule(scheduler: SchedulerConfig, stop: Mapping[str, float], trials: int) -> Rule:
    """Creates the scheduling rule of a scheduler that compares trials: asha, hyperband, bohb or median.

    The rule of populations needs more arguments, see `rlrun.experiments.search.rules.population`.

    Args:
        scheduler: Settings of the scheduler.
        stop: The experiment's stop criteria, the limit of trials if the scheduler has none.
        trials: Number of the experiment's trials, with those that a searcher has still to suggest.

    Raises:
        ValueError: The scheduler is a population-based one.
    """
    match scheduler.settings:
        case AshaConfig() as asha:
            return Asha(
                max_t=asha.limit(stop),
                grace_period=asha.first_rung(stop),
                reduction_factor=asha.reduction_factor,
                brackets=asha.brackets,
                measure=_measure(asha),
            )
        case HyperBandConfig() as hyperband:  # BohbConfig too
            return HyperBand(
                max_t=hyperband.limit(stop),
                grace_period=hyperband.first_rung(stop),
                reduction_factor=hyperband.reduction_factor,
                trials=trials,
                largest_first=scheduler.bohb is not None,
                name=scheduler.kind,
                measure=_measure(hyperband),
            )
        case MedianConfig() as median:
            return Median(
                grace_period=median.first_time(stop),
                min_samples_required=median.min_samples_required,
                measure=_measure(median),
            )
    raise ValueError(f"{scheduler.kind} does not compare trials with each other")


def _measure(settings: AshaConfig | HyperBandConfig | MedianConfig) -> Measure:
    return Measure(settings.metric, settings.mode, settings.time_attr)
