"""Gates of a regression run (experiments with targets), and negative controls, whose frozen policies must miss them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.rollout.evaluation import EvaluationResult
from rlrun.engine.settings.metric import of_policy
from rlrun.experiments.spec.expansion import filled
from rlrun.experiments.spec.experiment import AGAINST_METRICS, EVALUATION_INFOS, ExpectConfig, Experiment
from rlrun.experiments.spec.loggers import LoggersConfig
from rlrun.experiments.spec.search_space import find_spaces

CONTROL_ITERATIONS = 3
"""Iterations of a control whose targets are evaluation metrics: enough for the observation filter's moments, while a
frozen policy does not change."""


def frozen(experiment: Experiment) -> Experiment:
    """Copy of an experiment whose policies keep their initial parameters.

    All learning rates are 0, including searched ones; scheduler and loggers are removed. If all targets are evaluation
    metrics, the copy runs for `CONTROL_ITERATIONS` iterations. Otherwise it runs as long as the experiment, so that
    training metrics have values.

    Args:
        experiment: The experiment, with `expect`.
    """
    still = {place: _still(config) for place, config in experiment.settings.items()}
    template = filled(
        experiment.template,
        {(*place, name): value for place, own in still.items() for name, value in own.items()},
    )
    draws = any(not space.is_grid for space in find_spaces(template)[0].values())
    stop = experiment.stop.bounds
    judged_in = (experiment.evaluation and experiment.evaluation.env) or experiment.env
    evaluated = evaluated_metrics(experiment.learns.reported_policies(experiment.env), judged_in.columns) | {
        metric.name for metric in AGAINST_METRICS
    }
    if experiment.expect is not None and all(
        metric in evaluated or EVALUATION_INFOS.matches(metric) for metric in experiment.expect.metrics
    ):
        stop["iteration"] = min(stop.get("iteration", CONTROL_ITERATIONS), CONTROL_ITERATIONS)
    return as_control(experiment).replace(
        template=template,
        config=experiment.config.replace(**still.get(("config",), {})),
        policies={
            name: policy.replace(config=policy.config.replace(**still["policies", name, "config"]))
            for name, policy in experiment.policies.items()
        },
        stop=experiment.stop.replace(**stop),
        num_samples=experiment.num_samples if draws else 1,
        scheduler=None,
    )


def as_control(experiment: Experiment) -> Experiment:
    """Copies an experiment for a negative control (a run in which frozen policies must miss the targets).

    The copy has another name and no loggers. If the experiment continues from an earlier stage, the copy continues from
    the copy of that stage.

    Args:
        experiment: The experiment.
    """
    begins = experiment.begins
    return experiment.replace(
        name=control_name(experiment.name),
        begins=begins and begins.replace(after=control_name(begins.after)),
        loggers=LoggersConfig(),
    )


def control_name(name: str) -> str:
    """Name of an experiment's copy with frozen policies (negative control): the experiment's name and "-control"."""
    return f"{name}-control"


def _still(config: AlgorithmConfig) -> dict[str, Any]:
    """Algorithm settings under which all parameters stay frozen: learning rates of 0."""
    rates = [name for name in type(config).model_fields if name == "lr" or name.endswith("_lr")]
    return {**dict.fromkeys(rates, 0.0), "compile": False}  # compiling is not worth it for a few updates


def metrics_of(result: EvaluationResult) -> dict[str, float]:
    """Metrics of an evaluation, each under two names: as named in training, and with the prefix ``evaluation/``.

    Metrics from infos have only the second name, since ``info/<name>`` is a metric of training, which gates judge too.
    """
    values = {
        "episode_return_mean": result.mean,
        "episode_return_std": result.std,
        "episode_return_min": result.min,
        "episode_return_max": result.max,
        "episode_len_mean": result.len_mean,
        **result.column_means,
    }
    infos = result.info_means
    for policy, own in result.policies.items():
        infos |= {of_policy(policy, name): value for name, value in own.info_means.items()}
        if own.returns:
            values[of_policy(policy, "episode_return_mean")] = own.mean
    return values | {f"evaluation/{name}": value for name, value in (values | infos).items()}


def evaluated_metrics(policies: Iterable[str] = (), columns: Iterable[str] = ()) -> set[str]:
    """Names of an evaluation's metrics, including those of each policy in a multi-agent world and the env's columns.

    Args:
        policies: Policies of the world.
        columns: Per-step quantities that the evaluated env's config lists under `columns`.
    """
    one = EvaluationResult([0.0], [1])
    return set(
        metrics_of(EvaluationResult([0.0], [1], dict.fromkeys(policies, one), {name: [0.0] for name in columns}))
    )


@dataclass(frozen=True)
class Gate:
    """Experiment that a regression run checks, with the seeds, budget and targets from its section `expect`.

    Attributes:
        name: Name of the experiment.
        experiment: The experiment to run; in a negative control, its policies are frozen.
        expect: The targets that its policies must reach.
        needed: Number of seeds of each configuration that must reach the targets for the gate to pass.
    """

    name: str
    experiment: Experiment
    expect: ExpectConfig
    needed: int


def gates_of(experiments: Sequence[Experiment], seeds: int | None, *, control: bool) -> list[Gate]:
    """Creates a gate for each experiment with targets (`expect`): the experiment with its seeds, budget and targets.

    Args:
        experiments: The experiments, each with `expect` or in a chain with one that has it.
        seeds: Number of seeds to run (0 to `seeds` - 1) instead of the specs' own seeds; `passes` is scaled in
            proportion.
        control: Whether the policies are frozen.

    Raises:
        UsageError: If neither an experiment nor any other in its chain has `expect`, or if it uses a searcher.
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
        raise UsageError(
            f"{experiment.name} has fewer seeds ({number}) than must pass ({needed}); add `seeds` to `expect`"
        )
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
    if control and expect.last_evaluations is not None:  # only the last of 3 iterations is sure to be evaluated
        expect = expect.replace(last_evaluations=1)
    return Gate(experiment.name, frozen(held) if control else held, expect, needed)


def chains_of(experiments: Sequence[Experiment]) -> dict[str, list[str]]:
    """Lists, for each experiment, the names of the earlier stages that it continues from, followed by its own name."""
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
            f"{experiment.name} is a search ({chooses or stops}), in which most trials miss the target by "
            "design: test a spec with the configuration that the search found instead"
        )
