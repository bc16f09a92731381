"""``rlrun doctor --tune SPEC``: times short trainings with other numbers of workers and envs."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlrun.cli.json_document import print_result
from rlrun.cli.terminal import plain
from rlrun.cli.watch import copy_of_stderr
from rlrun.errors import UsageError

if TYPE_CHECKING:
    from rlrun.spec.experiment import TrialSpec

BUDGET_S = 60.0
LEAST_MEASURED_S = 2.5
LEAST_ITERATIONS = 2
ENV_COUNTS = (8, 16, 32, 64)
LEAST_FRAGMENT_LENGTH = 32  # shorter fragments are even faster but learn worse: too few steps between two bootstraps


@dataclass(frozen=True)
class Timing:
    """Measured speed of one setting of workers and envs.

    Attributes:
        num_workers: Number of rollout workers.
        num_envs_per_worker: Number of envs of each rollout worker.
        env_steps_per_s: Env steps per second, learning included.
    """

    num_workers: int
    num_envs_per_worker: int
    env_steps_per_s: float


def tune(spec: Path) -> None:
    """Benchmarks the first trial of a spec over numbers of workers and envs; prints the fastest settings as YAML.

    Args:
        spec: The spec file.

    Raises:
        UsageError: If the spec's algorithm has no batches, so that other numbers would change its learning.
    """
    from rlrun.spec.load import load_experiments

    trial = load_experiments([spec], [])[0].first_trial()
    if trial.policies:
        raise UsageError("doctor --tune times one algorithm, and this spec has policies: time it with `rlrun profile`")
    if "train_batch_size" not in type(trial.config).model_fields:
        raise UsageError(
            f"doctor --tune keeps the batches that are learned from, and {trial.algorithm} has no train_batch_size: "
            "time other settings with `rlrun profile`"
        )
    timings = []
    stderr = copy_of_stderr()
    for timing in _timings(trial):
        timings.append(timing)
        settings = f"num_workers {timing.num_workers}, num_envs_per_worker {timing.num_envs_per_worker}"
        print(plain(f"{settings}: {timing.env_steps_per_s:,.0f} env steps/s"), file=stderr, flush=True)
    timings.sort(key=lambda timing: timing.env_steps_per_s, reverse=True)
    best = timings[0]
    lines = [
        f"# {best.env_steps_per_s:,.0f} env steps/s here, learning included; train_batch_size as in {spec}",
        f"config:\n  num_workers: {best.num_workers}\n  num_envs_per_worker: {best.num_envs_per_worker}",
    ]
    if trial.config.rollout_fragment_length is not None:
        lines.append("  rollout_fragment_length: null  # the length that fills a batch")
    print_result({"timings": [vars(timing) for timing in timings]}, "\n".join(lines))


def candidates(num_envs: int, env_steps: int, cpus: int) -> list[tuple[int, int]]:
    """Enumerates the settings to benchmark as (num_workers, num_envs_per_worker), those without workers first.

    Each setting fills the batch exactly, so that only the speed and the length of fragments differ.

    Args:
        num_envs: The spec's own number of envs per worker.
        env_steps: Env steps that are collected between two updates.
        cpus: Number of usable CPUs.

    Examples:
        >>> candidates(8, 2048, 1)
        [(0, 8), (0, 16), (0, 32), (0, 64), (1, 8), (1, 16), (1, 32), (1, 64)]
    """
    workers = sorted({0, 1, max(1, cpus - 1), cpus})
    counts = sorted({num_envs, *ENV_COUNTS})
    columns = [(number, envs, max(number, 1) * envs) for number in workers for envs in counts]
    return [
        (number, envs)
        for number, envs, total in columns
        if env_steps % total == 0 and env_steps // total >= LEAST_FRAGMENT_LENGTH
    ] or [(0, num_envs)]


def _timings(trial: TrialSpec) -> Iterator[Timing]:
    """Benchmarks settings in order until the time budget is exhausted, at least the first."""
    from rlrun.cluster.ray_session import RaySession
    from rlrun.cluster.resources import machine_cpus
    from rlrun.runs.driver_log import DriverLog

    config = trial.config
    settings = candidates(config.num_envs_per_worker, config.env_steps_per_update, machine_cpus())
    trials = [
        trial.replace(
            config=config.replace(num_workers=workers, num_envs_per_worker=envs, rollout_fragment_length=None)
        )
        for workers, envs in settings
    ]
    start = time.monotonic()
    with ExitStack() as stack:
        for number, changed in enumerate(trials):
            if number and time.monotonic() - start > BUDGET_S:
                return
            if changed.config.num_workers and not trials[number - 1].config.num_workers:
                log = DriverLog()
                log.send_to(Path(os.devnull))  # Ray prints much
                stack.callback(log.close)
                stack.enter_context(RaySession(trials)).start()
            rate = _env_steps_per_s(changed)
            yield Timing(changed.config.num_workers, changed.config.num_envs_per_worker, rate)


def _env_steps_per_s(trial: TrialSpec) -> float:
    """Measures env steps per second over some seconds of training, without the first iteration."""
    from rlrun.trial.trial_training import training_of

    with training_of(trial) as training:
        first = last = training.step()
        start = time.perf_counter()
        for iteration in itertools.count(1):
            last = training.step()
            seconds = time.perf_counter() - start
            if iteration >= LEAST_ITERATIONS and seconds >= LEAST_MEASURED_S:
                break
    steps: int = last["env_steps"] - first["env_steps"]
    return steps / seconds
