"""Restores a run's scheduling rule (ASHA, HyperBand, ...) from the run's records."""

from __future__ import annotations

from collections.abc import Mapping

from rlrun.experiments.runs.active_run import ActiveRun
from rlrun.experiments.search.decisions import read_stops
from rlrun.experiments.search.lineage import Lineage
from rlrun.experiments.search.rules.asha import Asha
from rlrun.experiments.search.rules.hyperband import HyperBand
from rlrun.experiments.search.rules.median import Median
from rlrun.experiments.search.rules.population import Populations
from rlrun.experiments.search.rules.rule import Measure, Rule
from rlrun.experiments.spec.settings import settings_of, with_settings
from rlrun.experiments.spec.tuning import AshaConfig, HyperBandConfig, MedianConfig, SchedulerConfig
from rlrun.experiments.trial.results import read_results

Standing = tuple[str, float, float]
"""Triple of a trial, a reached rung, and the trial's metric at that rung."""


def rule_of(run: ActiveRun) -> tuple[Rule | None, list[Standing]]:
    """Restores the scheduling rule of a run (ASHA, PBT, ...) from the run's files.

    Trials that the rule has stopped, or would stop based on their results so far, are recorded as ended and removed
    from the run.

    Returns:
        The rule (None if there is no scheduler), and each trial's metric at each rung that the trial has reached.
    """
    scheduler = run.experiment.scheduler
    if scheduler is None:
        return None, []
    for name, stop in read_stops(run.directory.path).items():
        run.directory.mark_stopped(name, stop.reason)
    _leave_out(run, {trial.name for trial in run.trials if run.directory.record(trial.name).status == "TERMINATED"})
    if scheduler.population is not None:
        return _populations(run), []
    rule = make_rule(scheduler, run.experiment.stop.bounds, run.experiment.num_trials)
    return rule, _replay(rule, run) if run.resumed else []


def _replay(rule: Rule, run: ActiveRun) -> list[Standing]:
    scheduler = run.experiment.scheduler
    assert scheduler is not None
    settings = scheduler.settings
    names = run.directory.table.trials
    rows = []
    for name in names:
        rule.add(name)
        for row in read_results(run.directory.path / name):
            moment, value = row.get(scheduler.time_attr), row.get(settings.metric)
            if moment is not None:
                rows.append((float(moment), name, None if value is None else float(value)))
    sign = 1.0 if settings.mode == "max" else -1.0
    standings = []
    for moment, name, value in sorted(rows, key=lambda row: row[0]):
        rung = rule.on_result(name, moment, None if value is None else sign * value).rung
        if rung is not None and value is not None:
            standings.append((name, rung, value))
    running = {trial.name for trial in run.trials}  # includes failed trials that are retried
    for name in names:
        if name not in running:
            rule.remove(name)
    for name, decision in rule.released().items():
        if decision.verdict == "stop":
            run.directory.mark_stopped(name, decision.reason)
            run.stopped[name] = decision.reason
            rule.remove(name)
    _leave_out(run, set(run.stopped))
    return standings


def _leave_out(run: ActiveRun, over: set[str]) -> None:
    """Removes ended trials from a run, and emits the final status of each."""
    for trial in run.trials:
        if trial.name in over:
            run.ended(trial.name)
    run.trials = [trial for trial in run.trials if trial.name not in over]


def _populations(run: ActiveRun) -> Populations:
    scheduler = run.experiment.scheduler
    assert scheduler is not None
    settings = scheduler.population
    assert settings is not None
    trials = {name: run.directory.trial(name) for name in run.directory.table.trials}
    paths = tuple(settings.spaces)
    return Populations(
        settings,
        list(trials.values()),
        Lineage(run.directory.path),
        {name: settings_of(trial, paths) for name, trial in trials.items()},
        lambda name, params: with_settings(trials[name], params),
    )


def make_rule(scheduler: SchedulerConfig, stop: Mapping[str, float], trials: int) -> Rule:
    """Creates the rule of an early-stopping scheduler from its settings: asha, hyperband, bohb or median.

    The rule of population-based schedulers is `rlrun.experiments.search.rules.population.Populations`.

    Args:
        scheduler: Settings of the scheduler.
        stop: The experiment's stop criteria, which limit trials if the scheduler's settings do not.
        trials: Number of the experiment's trials, including those that a searcher has not suggested yet.

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
        case HyperBandConfig() as hyperband:  # also matches BohbConfig
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
