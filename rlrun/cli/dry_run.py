"""Output of ``rlrun train --dry-run``: a table of the planned trials, the scheduler and the searcher."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rlrun.cli.json_document import print_result
from rlrun.cli.tables import cell_text, counted, stdout_width, table

if TYPE_CHECKING:
    from rlrun.engine.training.assemble.policies import Policies
    from rlrun.experiments.spec.experiment import Experiment, TrialSpec
    from rlrun.experiments.spec.search_space import SearchSpace

MOST_OVERSHOOT = 0.2
"""Largest overshoot of the stop criterion, as a fraction of the criterion, that causes no warning."""


def print_plan(experiments: list[Experiment]) -> None:
    """Prints the trials that experiments would run, without starting any."""
    plans = ["\n".join(plan_lines(experiment, stdout_width())) for experiment in experiments]
    trials = sum(experiment.num_trials for experiment in experiments)
    data = {"experiments": [_described(experiment) for experiment in experiments]}
    print_result(data, "\n\n".join([*plans, f"{counted(trials, 'trial')} in total."]))


def plan_lines(experiment: Experiment, width: int | None = None) -> Iterator[str]:
    """Yields the lines that ``rlrun train --dry-run`` prints for one experiment, with a table of the trials to run.

    Args:
        experiment: A validated experiment.
        width: Maximum line width of the table in characters; None for no limit.
    """
    from rlrun.experiments.spec.titles import env_title

    members = experiment.mutated()
    seeds = counted(len(experiment.seeds), "population" if members else "seed")
    what = counted(experiment.num_configurations, "member" if members else "configuration")
    product = f"{seeds} of {what}" if members else f"{what} x {seeds}"
    yield f"{experiment.name}: {experiment.algorithm} on {env_title(experiment.env.to_data())}, {product}"
    if experiment.auto:
        yield f"{', '.join(experiment.auto)}: will be measured before the run"
    trials = experiment.trials()
    yield from _overshoots(trials or [experiment.first_trial()])
    if experiment.scheduler is not None:
        yield _scheduler_line(experiment)
    if experiment.searcher is not None:
        yield _searcher_line(experiment)
    names = experiment.param_names()
    if experiment.searches or members:
        spaces = experiment.spaces() if experiment.searches else members
        kind = "searched" if experiment.searches else "changing"
        rows = [[names[location], _space_text(space)] for location, space in spaces.items()]
        yield from ("", table([f"{kind} setting", "within"], rows, width))
    if trials:
        headings = ["trial", *names.values(), *(["population", "member"] if members else ["seed"])]
        rows = [
            [trial.name, *map(_shown, trial.params.values())]
            + ([trial.seed] if trial.population is None else [trial.population, trial.configuration])
            for trial in trials
        ]
        yield from ("", table(headings, rows, width))


def _overshoots(trials: Sequence[TrialSpec]) -> list[str]:
    """Warning for trials that overshoot the stop criterion by far, since trials end only with a complete iteration."""
    stop = trials[0].stop.bounds.get("env_steps")
    end = 0 if stop is None else max(_end(trial.learns, stop) for trial in trials)
    if stop is None or end <= stop * (1 + MOST_OVERSHOOT):
        return []
    return [
        (
            f"stop: the iteration that reaches env_steps {stop:,.0f} ends at {end:,} ({end / stop - 1:.0%} more): "
            "use fewer env steps per update, or a smaller config.min_env_steps_per_iteration"
        )
    ]


def _end(learns: Policies, stop: float) -> int:
    """Env steps at the end of training, that is, after the iteration that reaches the stop criterion."""
    from rlrun.experiments.spec.stop_config import env_steps_at_stop

    per_update = max(algorithm.config.env_steps_per_update for algorithm in learns.sampling_together().values())
    return env_steps_at_stop(stop, per_update, learns.sampling.min_env_steps_per_iteration)


def _scheduler_line(experiment: Experiment) -> str:
    """Description of the scheduler's settings, with the values derived from the stop criterion."""
    from rlrun.experiments.spec.tuning import AshaConfig, HyperBandConfig, MedianConfig

    assert experiment.scheduler is not None
    settings = experiment.scheduler.settings
    known = settings.to_data()
    if isinstance(settings, AshaConfig | HyperBandConfig):
        known["max_t"] = settings.limit(experiment.stop.bounds)
        known["grace_period"] = settings.first_rung(experiment.stop.bounds)
    if isinstance(settings, MedianConfig):
        known["grace_period"] = settings.first_time(experiment.stop.bounds)
    return f"scheduler {experiment.scheduler.kind}: {_settings_text(known)}"


def _searcher_line(experiment: Experiment) -> str:
    assert experiment.searcher is not None
    settings = experiment.searcher.settings
    known = "" if settings is None else f": {_settings_text(settings.to_data())}"
    return f"searcher {experiment.searcher.kind}{known}"


def _settings_text(settings: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {_shown_text(value)}"
        for name, value in settings.items()
        if name not in ("mutations", "bounds") and value is not None
    )


def _shown_text(value: Any) -> str:
    return f"{value:,.10g}" if isinstance(value, float) else cell_text(value)


def _shown(value: Any) -> Any:
    """Table cell of a parameter: the id of an env, any other value unchanged."""
    return value["id"] if isinstance(value, dict) and "id" in value else value


def _space_text(space: SearchSpace) -> str:
    (kind, arguments), *_ = space.to_data().items()
    return f"{kind} [{', '.join(_shown_text(argument) for argument in arguments)}]"


def _described(experiment: Experiment) -> dict[str, Any]:
    from rlrun.experiments.spec.titles import env_title

    return {
        "name": experiment.name,
        "algorithm": experiment.algorithm,
        "env": env_title(experiment.env.to_data()),
        "configurations": experiment.num_configurations,
        "seeds": list(experiment.seeds),
        "num_trials": experiment.num_trials,
        "scheduler": None if experiment.scheduler is None else experiment.scheduler.to_data(),
        "searcher": None if experiment.searcher is None else experiment.searcher.to_data(),
        "trials": [trial.to_data() for trial in experiment.trials()],
    }
