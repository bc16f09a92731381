"""Regression run: trains experiments, and checks whether final policies reach the targets in their specs.

The final checkpoint is evaluated in 20 deterministic episodes that are the same for every trial. A policy that was good
only temporarily has missed the target. A spec may choose the mean over the last evaluations instead, since policies of
value methods fluctuate. The budget is part of the target: training ends with the iteration in which `within_env_steps`
or `within_seconds` is used up.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlrun.engine.datasets.input_config import DataSettings
from rlrun.engine.messages.errors import CheckpointError, DiskFull, Interrupted, RayEnded, RlrunError, TrainingFailed
from rlrun.engine.settings.metric import Mode
from rlrun.engine.training.training import Training
from rlrun.experiments.launch.checks import check_chains
from rlrun.experiments.launch.existing_run import path_of_run, recorded_output
from rlrun.experiments.launch.run import run
from rlrun.experiments.runs.events import RunEvent, RunFinished, RunFound, Watcher
from rlrun.experiments.runs.run_directory import Executor, RunDirectory, new_directory
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.runs.trial_status import is_complete
from rlrun.experiments.spec.expansion import filled
from rlrun.experiments.spec.experiment import ExpectConfig, Experiment, TrialSpec
from rlrun.experiments.trial.results import read_results
from rlrun.experiments.trial.user_code import exits_as_failures
from rlrun.report.regression.control import Gate, as_control, chains_of, gates_of, metrics_of
from rlrun.report.regression.verdicts import Case, Verdict
from rlrun.report.step_axis import ENV_STEPS, SGD_STEPS

Member = tuple[TrialResult, TrialSpec]
"""Type of a trial's result paired with its spec."""

EPISODES = 20
"""Number of deterministic episodes in the evaluation of a checkpoint."""


def regress(
    experiments: Sequence[Experiment],
    *,
    runs_dir: Path,
    seeds: int | None = None,
    control: bool = False,
    best: bool = False,
    executor: Executor | None = None,
    resume: bool = False,
    watch: Watcher = lambda event: None,
) -> list[Verdict]:
    """Runs experiments, and returns a verdict for each one with targets: whether it reaches them.

    Stages that precede an experiment with `expect` run before it, and get no verdict. Data sets that experiments record
    are stored in the folder of runs.

    A failed trial becomes a case with an error; the other trials continue.

    Args:
        experiments: The experiments, each with `expect` or in a chain with one that has it.
        runs_dir: The folder that holds the runs.
        seeds: Number of seeds to run (0 to `seeds` - 1) instead of the specs' own seeds; `passes` is scaled in
            proportion.
        control: Whether to freeze the policies, so that every experiment must miss its targets (see
            `rlrun.report.regression.control`).
        best: Whether to judge the best checkpoint (by `checkpoint.best`) instead of the final one.
        executor: Executor of trials, as in `rlrun.run`.
        resume: Whether to continue the runs that already have the experiments' names, as in `rlrun.run`.
        watch: Function called with each event of the runs.

    Raises:
        UsageError: If no experiment of a chain has `expect`, or one uses a searcher; raised before anything runs.
        Interrupted: If the user interrupted the runs.
        DiskFull: If the disk is full, which ends all trials.
        RayEnded: If Ray ended before all experiments had finished.
    """
    gates = gates_of(experiments, seeds, control=control)
    held = to_run(experiments, gates, control=control)
    check_chains(held)
    runs, cut_short = _run_all(with_local_data(held, runs_dir, resume=resume), runs_dir, executor, watch, resume=resume)
    return [_verdict(gate, runs[gate.experiment.name], cut_short, control=control, best=best) for gate in gates]


def _run_all(
    experiments: Sequence[Experiment], runs_dir: Path, executor: Executor | None, watch: Watcher, *, resume: bool
) -> tuple[dict[str, list[Member]], str]:
    """Runs all experiments in one call, so that Ray starts only once.

    Specs are read as soon as a run has ended, since the directory of a run that could not start is deleted. If all
    trials of an experiment failed, nothing is raised: each case holds its error.

    Returns:
        The trials of each experiment with their specs, by its name, and the reason why trials without an error of
        their own did not end, or "".
    """
    runs: dict[str, list[Member]] = {}

    def collect(event: RunEvent) -> None:
        watch(event)
        if isinstance(event, RunFinished) or (isinstance(event, RunFound) and event.is_over):
            directory = RunDirectory.open(event.directory)
            runs[directory.table.experiment] = [(trial, directory.trial(trial.name)) for trial in event.trials]

    again = "repeat the command" if resume else "run the command again from the start"
    try:
        run(experiments, runs_dir=runs_dir, executor=executor, resume=resume, watch=collect)
    except Interrupted as interrupted:
        signal = str(interrupted).partition(":")[0]
        raise Interrupted(f"{signal}: stopped before any verdict; {again}") from None
    except DiskFull:
        raise
    except Exception as error:
        if len(runs) < len(experiments):
            raise
        if isinstance(error, RayEnded):  # its trials can be resumed, but only this call judges them
            return runs, f"{str(error).partition('; continue with')[0]}; {again}"
    return runs, ""


def _verdict(gate: Gate, members: list[Member], cut_short: str, *, control: bool, best: bool) -> Verdict:
    judged = members
    population = None if gate.experiment.scheduler is None else gate.experiment.scheduler.population
    if population is not None:
        judged = leaders(members, population.metric, population.mode)
    cases = tuple(_case(gate.expect, trial, spec, cut_short, best=best) for trial, spec in judged)
    return Verdict(gate.name, cases, gate.needed, control, floor=gate.expect.regression_floor)


def leaders(members: Sequence[Member], metric: str, mode: Mode) -> list[Member]:
    """Selects the member of each population (PBT) to evaluate: the best by the last value of the population's metric.

    If a member has failed or has not ended, that member is returned instead, so that the population counts as failed.

    Args:
        members: The members of all populations.
        metric: Metric by which the members were compared in training; its last value is used.
        mode: Whether higher or lower values of the metric are better.
    """

    def rank(member: Member) -> tuple[bool, float]:
        value = member[0].last_result.get(metric)
        score = -math.inf if value is None else float(value) if mode == "max" else -float(value)
        return not is_complete(member[0].status), score

    seeds = dict.fromkeys(spec.population for _, spec in members)
    return [max((member for member in members if member[1].population == seed), key=rank) for seed in seeds]


def _case(expect: ExpectConfig, trial: TrialResult, spec: TrialSpec, cut_short: str, *, best: bool) -> Case:
    values: dict[str, float | None] = dict.fromkeys(expect.metrics)
    evaluated: Mapping[str, float | None]
    error = ""
    try:
        checkpoint = _checkpoint(trial, cut_short, best=best)
        if expect.last_evaluations is not None and not best:
            evaluated = _last_evaluations(trial, expect)
        else:
            evaluated = _evaluation(checkpoint, spec)
        values = {metric: evaluated.get(metric, trial.last_result.get(metric)) for metric in expect.metrics}
    except RlrunError as problem:
        error = str(problem)
    except Exception as problem:  # an env or plugin may raise anything, and the other cases still count
        error = "".join(traceback.format_exception(problem)).rstrip()
    in_population = spec.population is not None  # members' settings change while they train
    return Case(
        trial=trial.name,
        seed=spec.seed if spec.population is None else spec.population,
        configuration="" if in_population else ", ".join(f"{name}={value}" for name, value in spec.params.items()),
        directory=trial.directory,
        env_steps=int(trial.last_result.get(ENV_STEPS) or 0),
        sgd_steps=int(trial.last_result.get(SGD_STEPS) or 0),
        seconds=float(trial.last_result.get("time_total_s") or 0.0),
        values=values,
        expected=expect.metrics,
        error=error,
    )


def _checkpoint(trial: TrialResult, cut_short: str, *, best: bool) -> Path:
    """Checkpoint by which a trial is judged.

    Raises:
        TrainingFailed: If its training did not finish.
        CheckpointError: If there is no such checkpoint.
    """
    if not is_complete(trial.status):
        status = trial.status.lower()
        raise TrainingFailed(trial.error or cut_short or f"its training did not finish: {status}")
    checkpoint = trial.best_checkpoint if best else trial.checkpoint
    if checkpoint is None:
        raise CheckpointError(f"{trial.directory} has no {'best' if best else 'complete'} checkpoint")
    return checkpoint


def _evaluation(checkpoint: Path, spec: TrialSpec) -> dict[str, float]:
    env = spec.evaluation.env if spec.evaluation is not None else None
    # The checkpoint is trusted, because it was just created from a spec that the user named.
    with exits_as_failures(), Training.restore(checkpoint, trust=True, eager=True, for_training=False) as training:
        return metrics_of(training.evaluate(EPISODES, env=env))


def _last_evaluations(trial: TrialResult, expect: ExpectConfig) -> dict[str, float | None]:
    """Mean of each metric over a trial's last evaluations; None with fewer evaluations."""
    number = expect.last_evaluations or 1
    means: dict[str, float | None] = {}
    rows = read_results(trial.directory)
    for metric in expect.metrics:
        name = f"evaluation/{metric.removeprefix('evaluation/')}"
        values = [row[name] for row in rows if row.get(name) is not None][-number:]
        means[metric] = sum(values) / number if len(values) == number else None
    return means


def to_run(experiments: Sequence[Experiment], gates: Sequence[Gate], *, control: bool) -> list[Experiment]:
    """Selects the experiments to run for gates (experiments with targets), in the order of the specs.

    These are the gates' experiments and the stages from which they continue.

    Stages without targets use the seeds of the gates that follow. In a negative control they learn as usual, since only
    the stage of the gate is tested.

    Args:
        experiments: All experiments of the specs.
        gates: The gates of the experiments with targets.
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


def with_local_data(experiments: Sequence[Experiment], runs_dir: Path, *, resume: bool = False) -> list[Experiment]:
    """Copies experiments so that data sets recorded by one stage and read by a later one are stored in `runs_dir`.

    Each data set gets an unused name there, unless a run that is resumed has recorded it.

    Args:
        experiments: The experiments; each follows the stage that precedes it.
        runs_dir: The folder that holds the runs.
        resume: Whether the runs that already have the experiments' names are resumed.

    Raises:
        UsageError: The folder cannot be created.
    """
    places: dict[str, dict[str, str]] = {}
    moved = []
    for experiment in experiments:
        known = {} if experiment.begins is None else places.get(experiment.begins.after, {}).copy()
        if experiment.output is not None:
            recorded = recorded_output(path_of_run(experiment, runs_dir, None)) if resume else None
            known[experiment.output] = recorded or str(new_directory(runs_dir, f"{experiment.name}-data"))
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
