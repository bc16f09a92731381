"""Gates: experiments with the seeds, the budget and the targets of a regression run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlrun.engine.messages.errors import UsageError
from rlrun.experiments.spec.experiment import ExpectConfig, Experiment
from rlrun.report.regression.control import frozen


@dataclass(frozen=True)
class Gate:
    """Gate: an experiment with the seeds, the budget and the targets of its `expect`.

    Attributes:
        name: Name of the experiment.
        experiment: The experiment to run, in a control with frozen policies.
        expect: The targets that its policies must reach.
        needed: Number of seeds of each configuration that must reach the targets.
    """

    name: str
    experiment: Experiment
    expect: ExpectConfig
    needed: int


def gates_of(experiments: Sequence[Experiment], seeds: int | None, *, control: bool) -> list[Gate]:
    """Creates the gates of experiments.

    Args:
        experiments: The experiments, each with `expect` or in a chain with one that has it.
        seeds: Number of seeds (0 to `seeds` - 1) instead of the specs' own; `passes` is scaled with it.
        control: Whether the policies are frozen.

    Raises:
        UsageError: If an experiment has no `expect`, nor has any in its chain, or searches.
    """
    chains = chains_of(experiments)
    judged = {chains[experiment.name][0] for experiment in experiments if experiment.expect is not None}
    silent = [name for name, chain in chains.items() if chain[0] not in judged]
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
    needed = expect.required_passes(number)
    if needed > number:
        raise UsageError(f"{experiment.name} runs {number} seeds and expects {needed} passes: add `seeds` to `expect`")
    stop = experiment.stop.bounds
    limits: dict[str, float | None] = {**expect.within_steps, "time_total_s": expect.within_seconds}
    for metric, limit in limits.items():
        if limit is not None:
            stop[metric] = min(stop.get(metric, limit), limit)
    held = experiment.replace(
        seeds=tuple(range(number)) if seeds or expect.seeds else experiment.seeds,
        stop=experiment.stop.replace(**stop),
        checkpoint=experiment.checkpoint.replace(at_end=True),
    )
    if control and expect.last_evaluations is not None:  # of 3 iterations the last one alone is surely evaluated
        expect = expect.replace(last_evaluations=1)
    return Gate(experiment.name, frozen(held) if control else held, expect, needed)


def chains_of(experiments: Sequence[Experiment]) -> dict[str, list[str]]:
    """Names of the experiments that each one begins after, from the first one on, and its own at the end."""
    chains: dict[str, list[str]] = {}
    for experiment in experiments:
        before = [] if experiment.begins is None else chains.get(experiment.begins.after, [])
        chains[experiment.name] = [*before, experiment.name]
    return chains


def _refuse_search(experiment: Experiment) -> None:
    """Raises an error for experiments that search configurations or stop trials early."""
    searcher, scheduler = experiment.searcher, experiment.scheduler
    chooses = searcher.kind if searcher is not None and searcher.settings is not None else ""
    stops = scheduler.kind if scheduler is not None and scheduler.population is None else ""
    if chooses or stops:
        raise UsageError(
            f"{experiment.name} is a search ({chooses or stops}), most of whose trials are meant to miss: "
            "hold a spec of the configuration that it has found to a target instead"
        )
