"""From what a spec says of its scheduler to the rule that decides."""

from __future__ import annotations

from collections.abc import Mapping

from rlrun.search.rules.asha import Asha
from rlrun.search.rules.hyperband import HyperBand
from rlrun.search.rules.median import Median
from rlrun.search.rules.rule import Measure, Rule
from rlrun.spec.tuning import AshaConfig, HyperBandConfig, MedianConfig, SchedulerConfig


def make_rule(scheduler: SchedulerConfig, stop: Mapping[str, float], trials: int) -> Rule:
    """Returns the rule of a scheduler that compares trials with each other: asha, hyperband, bohb or median.

    The rule of populations needs more than this, see `rlrun.search.rules.population`.

    Args:
        scheduler: What the spec says, checked.
        stop: The experiment's, which says how far trials run where the scheduler does not.
        trials: How many trials the experiment has in all, those included that a searcher has yet to suggest.

    Raises:
        ValueError: If the scheduler is another one.
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
        case HyperBandConfig() as hyperband:  # BohbConfig as well
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
