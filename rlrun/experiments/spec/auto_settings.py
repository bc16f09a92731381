"""Settings with the value ``auto``: numbers of workers and envs, chosen by a benchmark before a run's trials start.

The spec's other settings, above all the batch size of an update, are not changed. A candidate is therefore measured
only if whole rollout fragments from all workers fill that batch exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlrun.engine.algorithm import Algorithm
from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.messages.errors import SpecError
from rlrun.engine.messages.explain import Location, Mistake
from rlrun.experiments.spec.experiment import AUTO, Experiment
from rlrun.experiments.spec.search_space import is_search_space

AUTO_SETTINGS = ("num_workers", "num_envs_per_worker")
"""Settings that accept the value ``auto``: their best values are measured on this machine."""

KEPT = "train_batch_size"
"""Setting that measured settings must leave unchanged: the batch size."""

ENV_COUNTS = (8, 16, 32, 64)
"""Numbers of envs per worker that are tried, in addition to the number in the spec."""

LEAST_FRAGMENT_LENGTH = 32
"""Minimum length of fragments to try, in steps; shorter ones are faster but bootstrap too often to learn well."""


@dataclass(frozen=True)
class WithoutAuto:
    """Spec entry without the settings whose value is ``auto``, so that these settings have their defaults for now.

    Attributes:
        entry: The entry.
        auto: Names of the settings.
        mistakes: Mistakes in search spaces that contain ``auto``.
    """

    entry: Mapping[str, Any]
    auto: tuple[str, ...]
    mistakes: tuple[Mistake, ...]


def without_auto(entry: Mapping[str, Any]) -> WithoutAuto:
    """Removes the settings with the value ``auto`` from the `config` of a spec entry.

    Examples:
        >>> found = without_auto({"config": {"num_workers": "auto", "lr": 0.1}})
        >>> found.entry, found.auto
        ({'config': {'lr': 0.1}}, ('num_workers',))
    """
    config = entry.get("config")
    written = config if isinstance(config, Mapping) else {}
    auto = tuple(name for name in AUTO_SETTINGS if written.get(name) == AUTO)
    varied = tuple(name for name in AUTO_SETTINGS if _varies_auto(written.get(name)))
    if not auto + varied:
        return WithoutAuto(entry, (), ())
    message = f"{AUTO} cannot be in a search space, because it is measured once for all trials"
    rest = {name: value for name, value in written.items() if name not in auto + varied}
    return WithoutAuto({**entry, "config": rest}, auto, tuple(Mistake(("config", name), message) for name in varied))


def _varies_auto(value: Any) -> bool:
    return is_search_space(value) and any(AUTO in choices for choices in value.values() if isinstance(choices, list))


def auto_mistakes(
    auto: Sequence[str], entry: Mapping[str, Any], algorithm: Algorithm[Any], experiment: Experiment | None
) -> list[Mistake]:
    """Finds invalid uses of ``auto``: for settings that affect the learning result, or that cannot be measured.

    Args:
        auto: Names of the settings.
        entry: The entry.
        algorithm: The first policy's algorithm.
        experiment: The experiment; None if its entry has other mistakes.
    """
    model, mistakes = type(algorithm.config), []
    why_not = _why_not_measured(entry, algorithm)
    if not why_not and experiment is not None:
        why_not = _why_none_fits(auto, experiment)
    for name in auto:
        where: Location = ("config", name)
        if name not in model.model_fields:
            gone = model.why_gone(name).replace(" set here", f" set for {algorithm.name()}", 1)
            mistakes.append(Mistake(where, gone, at_key=True))
        elif why_not:
            mistakes.append(Mistake(where, f"cannot be {AUTO}: {why_not}; set a number"))
    return mistakes


def _why_not_measured(entry: Mapping[str, Any], algorithm: Algorithm[Any]) -> str:
    """Reason why the settings of an entry cannot be measured; "" if they can."""
    begins = entry.get("begins")
    if "policies" in entry:
        return "several policies share the workers, and each has its own batch"
    if KEPT not in type(algorithm.config).model_fields:
        return f"{algorithm.name()} has no {KEPT} to keep constant"
    if algorithm.mode == "async":
        return (
            f"what {algorithm.name()} learns depends on the number of workers, because they do not wait for each other"
        )
    if isinstance(begins, Mapping) and begins.get("recorded"):
        return "the previous stage has not written its data yet"
    return ""


def _why_none_fits(auto: Sequence[str], experiment: Experiment) -> str:
    """Reason why no setting keeps an experiment's batch size; "" if there is none."""
    if experiment.env.external is not None:
        return "the clients of env.external are not connected before the run"
    if experiment.env.has_many_agents:
        return f"in a multi-agent world, {KEPT} counts the steps of each agent"
    config = experiment.config
    for setting in (KEPT, "rollout_fragment_length"):
        if ("config", setting) in {**experiment.spaces(), **experiment.mutated()}:
            return f"{setting} varies, so batches would not consist of whole fragments in all trials"
    if not candidates(config, auto, room=0):
        length = config.rollout_fragment_length
        steps = f"at least {LEAST_FRAGMENT_LENGTH} steps" if length is None else f"{length} steps"
        return (
            f"none of the tried numbers divides {KEPT} ({config.env_steps_per_update}) into whole fragments of {steps}"
        )
    return ""


def candidates(config: AlgorithmConfig, auto: Sequence[str], room: int) -> list[tuple[int, int]]:
    """Lists the pairs (num_workers, num_envs_per_worker) to benchmark for `auto` settings, fewest workers first.

    Args:
        config: Settings of the algorithm.
        auto: Names of the settings that may differ from `config`.
        room: Maximum number of workers.
    """
    few = {0, 1, room - 1, room}
    workers = sorted(number for number in few if 0 <= number <= room) if "num_workers" in auto else [config.num_workers]
    own = config.num_envs_per_worker
    envs = sorted({own, *ENV_COUNTS}) if "num_envs_per_worker" in auto else [own]
    return [(number, each) for number in workers for each in envs if _keeps_batch(config, number, each)]


def _keeps_batch(config: AlgorithmConfig, num_workers: int, num_envs: int) -> bool:
    """Whether whole fragments of all envs fill a batch exactly, and the algorithm accepts the numbers."""
    try:
        config.replace(num_workers=num_workers, num_envs_per_worker=num_envs)
    except SpecError:
        return False
    length = config.rollout_fragment_length
    env_steps, env_slots = config.env_steps_per_update, max(num_workers, 1) * num_envs
    if length is None:
        return env_steps % env_slots == 0 and env_steps // env_slots >= LEAST_FRAGMENT_LENGTH
    return env_steps % (env_slots * length) == 0
