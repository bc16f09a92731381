"""Chains of stages in a regression run: what runs before a judged stage, and where its data sets lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rlrun.engine.datasets.input_config import DataSettings
from rlrun.experiments.runs.run_directory import new_directory
from rlrun.experiments.spec.expansion import filled
from rlrun.experiments.spec.experiment import Experiment
from rlrun.report.regression.control import as_control
from rlrun.report.regression.gates import Gate, chains_of


def to_run(experiments: Sequence[Experiment], gates: Sequence[Gate], *, control: bool) -> list[Experiment]:
    """Experiments that gates take: their own, and those that these begin after, in the order of the specs.

    Those that expect nothing have the seeds of the gates that they lead to. In a control they learn as ever: the
    question is what the stage of the gate adds.

    Args:
        experiments: All experiments of the specs.
        gates: The gates of those that expect something.
        control: Whether the policies of the gates are frozen.
    """
    chains, own = chains_of(experiments), {gate.name: gate.experiment for gate in gates}
    seeds: dict[str, dict[int, None]] = {}
    for name, judged in own.items():
        for earlier in chains[name]:
            seeds.setdefault(earlier, {}).update(dict.fromkeys(judged.seeds))
    found = []
    for experiment in experiments:
        if experiment.name in own:
            found.append(own[experiment.name])
        elif experiment.name in seeds:
            leads = experiment.replace(seeds=tuple(seeds[experiment.name]))
            found.append(as_control(leads) if control else leads)
    return found


def with_own_data(experiments: Sequence[Experiment], runs_dir: Path) -> list[Experiment]:
    """Copies of experiments whose data sets lie in the folder of runs, under names that are free, also for readers.

    Args:
        experiments: The experiments, each after the one that it begins after.
        runs_dir: The folder that holds the runs.

    Raises:
        UsageError: The folder cannot be created.
    """
    places: dict[str, dict[str, str]] = {}
    moved = []
    for experiment in experiments:
        known = {} if experiment.begins is None else places.get(experiment.begins.after, {}).copy()
        if experiment.output is not None:
            known[experiment.output] = str(new_directory(runs_dir.absolute(), f"{experiment.name}-data"))
        places[experiment.name] = known
        moved.append(_moved(experiment, known))
    return moved


def _moved(experiment: Experiment, places: Mapping[str, str]) -> Experiment:
    """Copy of an experiment that writes and reads data sets in other places, each given by its path in the spec."""
    if experiment.output is not None:
        experiment = experiment.replace(output=places[experiment.output])
    if experiment.begins is not None:
        recorded = tuple(places.get(path, path) for path in experiment.begins.recorded)
        experiment = experiment.replace(begins=experiment.begins.replace(recorded=recorded))
    if not isinstance(experiment.config, DataSettings) or experiment.config.input is None:
        return experiment
    config = experiment.config.reading(places)
    template = filled(experiment.template, {("config", "input"): config.to_data()["input"]})
    return experiment.replace(config=config, template=template)
