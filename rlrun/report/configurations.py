"""Grouping of a run's trials by configuration; trials of a group differ only by seed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from rlrun.engine.messages.errors import UsageError, did_you_mean
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.report.reading import RunView

Sample = tuple[TrialResult, ...]
"""Type of a statistical sample: a trial, or a whole population, of which the best member counts."""


class Configured(Protocol):
    """Interface of trials that `configurations` can group by the parameters that vary between them."""

    @property
    def params(self) -> dict[str, Any]:
        """Values that vary between trials, by name."""


T = TypeVar("T", bound=Configured)


@dataclass(frozen=True)
class Group:
    """Group of trials: one configuration with all its seeds, the populations of a run, or a whole run.

    Attributes:
        label: Name of the group, unique within a list of groups.
        run: Name of the run.
        params: Values of the varying parameters; {} for populations and whole runs.
        strata: Sets of samples (trials, or whole populations), within which a bootstrap resamples.
    """

    label: str
    run: str
    params: dict[str, Any]
    strata: tuple[tuple[Sample, ...], ...]

    @property
    def samples(self) -> tuple[Sample, ...]:
        """All samples of the group."""
        return tuple(sample for stratum in self.strata for sample in stratum)

    @property
    def members(self) -> int:
        """Number of trials in each sample: 1, or the size of a population."""
        return max((len(sample) for sample in self.samples), default=1)

    @property
    def trials(self) -> tuple[TrialResult, ...]:
        """All trials of the group."""
        return tuple(trial for sample in self.samples for trial in sample)


def configurations(trials: Iterable[tuple[T, int | None]]) -> list[list[T]]:
    """Groups trials by the number of their configuration, in the given order.

    Args:
        trials: Pairs of trial and configuration number. If the number is None, trials with equal parameters form a
            group.
    """
    groups: dict[Any, list[T]] = {}
    for trial, number in trials:
        key = json.dumps(trial.params, sort_keys=True, default=str) if number is None else number
        groups.setdefault(key, []).append(trial)
    return list(groups.values())


def groups_of(run: RunView, *, several_runs: bool = False, pool: bool = False) -> list[Group]:
    """Groups the trials of a run by configuration; in a run with populations (PBT), all populations form one group.

    A population counts as one sample (its best member), since its members depend on each other and change their
    settings.

    Args:
        run: The run.
        several_runs: Whether labels begin with the run's name, since groups of several runs are shown together.
        pool: Whether to put all trials of the run into one group.
    """
    if any(trial.population is not None for trial in run.trials):
        return [_group_of_populations(run)]
    found = configurations((trial, trial.configuration) for trial in run.trials)
    if pool:
        return [Group(run.name, run.name, {}, _strata(found))]
    # A damaged trial has lost its parameters, so they are taken from other seeds of its configuration.
    params = [next((trial.params for trial in trials if trial.params), {}) for trials in found]
    names = [run.name if several_runs or not values else "" for values in params]
    labels = [", ".join(filter(None, (name, params_text(own)))) for name, own in zip(names, params, strict=True)]
    counts = Counter(labels)
    return [
        Group(
            label if counts[label] == 1 else f"{label} (#{number})",
            run.name,
            values,
            (tuple((trial,) for trial in trials),),
        )
        for number, (label, values, trials) in enumerate(zip(labels, params, found, strict=True))
    ]


def groups_by(run: RunView, setting: str, *, several_runs: bool = False) -> list[Group]:
    """Groups the trials of a run by the value of one varying setting, pooled over its other settings and seeds.

    Args:
        run: The run.
        setting: Name of the setting as in the trials' parameters, or its full path: ``lr`` or ``config.lr``.
        several_runs: Whether labels begin with the run's name.

    Raises:
        UsageError: If the setting does not vary between the run's trials, or varies within them (PBT).
    """
    if any(trial.population is not None for trial in run.trials):
        raise UsageError(f"{run.name}: cannot group by '{setting}', because members of a population change settings")
    varied = varied_settings(run)
    name = next((name for name in varied if f".{setting}".endswith(f".{name}")), None)
    if name is None:
        only = f", only in {', '.join(varied)}" if varied else ""
        raise UsageError(f"the trials of {run.name} do not differ in '{setting}'{only}{did_you_mean(setting, varied)}")
    by_value: dict[str, list[TrialResult]] = {}
    for trial in run.trials:
        if name in trial.params:  # a damaged trial has lost its parameters
            by_value.setdefault(json.dumps(trial.params[name], sort_keys=True, default=str), []).append(trial)
    groups = []
    for trials in by_value.values():
        params = {name: trials[0].params[name]}
        label = ", ".join([*([run.name] if several_runs else []), params_text(params)])
        found = configurations((trial, trial.configuration) for trial in trials)
        groups.append(Group(label, run.name, params, _strata(found)))
    return groups


def varied_settings(run: RunView) -> list[str]:
    """Names of the settings that vary between the trials of a run."""
    return list(dict.fromkeys(name for trial in run.trials for name in trial.params))


def _strata(found: Sequence[Sequence[TrialResult]]) -> tuple[tuple[Sample, ...], ...]:
    """Strata of pooled configurations: resampling within a configuration requires at least two seeds.

    With fewer seeds, whole configurations are resampled.
    """
    strata = found if all(len(trials) > 1 for trials in found) else [[one for trials in found for one in trials]]
    return tuple(tuple((trial,) for trial in trials) for trials in strata)


def _group_of_populations(run: RunView) -> Group:
    populations: dict[int | None, list[TrialResult]] = {}
    for trial in run.trials:
        populations.setdefault(trial.population, []).append(trial)
    members = max(map(len, populations.values()))
    samples = tuple(tuple(trials) for trials in populations.values())
    return Group(f"{run.name}, best of {members} members", run.name, {}, (samples,))


def params_text(params: Mapping[str, Any]) -> str:
    """Formats parameters as text.

    Examples:
        >>> params_text({"lr": 0.00031415926, "hiddens": [64, 64]})
        'lr=0.0003142, hiddens=[64, 64]'
    """
    return ", ".join(f"{name}={value_text(value)}" for name, value in params.items())


def value_text(value: Any) -> str:
    """Formats a parameter's value as text, floats with four digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def is_number(value: Any) -> bool:
    """Whether a parameter's value is a number; booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
