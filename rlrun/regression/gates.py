"""What an experiment is held to, and what therefore runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlrun.errors import UsageError
from rlrun.regression.control import frozen
from rlrun.spec.experiment import ExpectConfig, Experiment


@dataclass(frozen=True)
class Gate:
    """An experiment as it will be run, and what it is held to.

    Attributes:
        name: The experiment's own name.
        experiment: What runs: with the seeds and the budget of the gate, and as a control with a frozen policy.
        expect: What its policies must reach.
        needed: How many seeds of each configuration must reach it.
    """

    name: str
    experiment: Experiment
    expect: ExpectConfig
    needed: int


def gates_of(experiments: Sequence[Experiment], seeds: int | None, *, control: bool) -> list[Gate]:
    """Returns the gates of experiments.

    Args:
        experiments: Each must expect something.
        seeds: The seeds 0 to `seeds` - 1 instead of what the specs say; `passes` keeps its share of them.
        control: Whether the policies are kept from learning.

    Raises:
        UsageError: If an experiment expects nothing, or cannot be held to it.
    """
    silent = [experiment.name for experiment in experiments if experiment.expect is None]
    if silent:
        does = "expects" if len(silent) == 1 else "expect"
        raise UsageError(f"{', '.join(silent)} {does} nothing: add `expect: {{episode_return_mean: ...}}` to the spec")
    return [
        _gate(experiment, experiment.expect, seeds, control=control)
        for experiment in experiments
        if experiment.expect is not None
    ]


def _gate(experiment: Experiment, expect: ExpectConfig, seeds: int | None, *, control: bool) -> Gate:
    _refuse_search(experiment)
    own = expect.seeds or len(experiment.seeds)
    number = seeds or own
    if seeds is not None and expect.passes is not None:
        expect = expect.replace(seeds=seeds, passes=-(-expect.passes * seeds // own))
    needed = expect.needed_passes(number)
    if needed > number:
        raise UsageError(f"{experiment.name} runs {number} seeds and expects {needed} passes: add `seeds` to `expect`")
    stop = dict(experiment.stop)
    for metric, limit in (("env_steps", expect.within_env_steps), ("time_total_s", expect.within_seconds)):
        if limit is not None:
            stop[metric] = min(stop.get(metric, limit), limit)
    held = experiment.replace(
        seeds=tuple(range(number)) if seeds or expect.seeds else experiment.seeds,
        stop=stop,
        checkpoint=experiment.checkpoint.replace(at_end=True),
    )
    if control:  # a policy that does not learn is the same in all evaluations
        return Gate(experiment.name, frozen(held), expect.replace(last_evaluations=None), needed)
    return Gate(experiment.name, held, expect, needed)


def _refuse_search(experiment: Experiment) -> None:
    """Refuses what chooses configurations, or stops some of them, on its way: most of its trials are meant to miss."""
    searcher, scheduler = experiment.searcher, experiment.scheduler
    chooses = searcher.kind if searcher is not None and searcher.settings is not None else ""
    stops = scheduler.kind if scheduler is not None and scheduler.population is None else ""
    if chooses or stops:
        raise UsageError(
            f"{experiment.name} is a search ({chooses or stops}), most of whose trials are meant to miss: "
            "hold a spec of the configuration that it has found to a target instead"
        )
