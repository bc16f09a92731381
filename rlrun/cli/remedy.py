"""Advice on the settings of distribution, from the profile of a training."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rlrun.cli.profiling import Profile

if TYPE_CHECKING:
    from rlrun.engine.algorithm_config import AlgorithmConfig

MOST = 0.5
"""Share of the time from which on a part is worth a remedy."""

COLLECTING_BESIDE_THE_REST = 0.25
"""Time of collection that is aimed at, as a share of all other time."""

MANY_ENVS = 64
"""Envs of a worker above which more of them hardly share the cost of a call any better."""


def remedy(profile: Profile, config: AlgorithmConfig, cpus: int) -> str:
    """Advice on the part of a training that takes the most time; the batch of an update is left alone.

    Args:
        profile: Profile of the training.
        config: Its settings of sampling.
        cpus: CPUs of this machine.
    """
    received = sum(operator.seconds for operator in profile.operators if operator.kind == "source")
    collecting = (profile.waited_s + received) / profile.seconds
    if profile.sgd_s / profile.seconds > MOST:
        share = f"{profile.sgd_s / profile.seconds:.0%}"
        return f"remedy: learning takes {share} of the time, which no more workers or envs shorten; see learners.md"
    if collecting <= MOST:
        return "remedy: none; neither collecting nor learning takes most of the time"
    begin = f"remedy: collecting takes {collecting:.0%} of the time"
    spent = {phase: sum(worker.phases.get(phase, 0.0) for worker in profile.workers) for phase in _phases(profile)}
    acting = spent.get("inference", 0.0) + spent.get("recording", 0.0)
    envs = config.num_envs_per_worker
    if acting > spent.get("env_step", 0.0) and envs < MANY_ENVS:
        return f"{begin}, more of it in acting than in envs: try num_envs_per_worker: {2 * envs}, now {envs}"
    now = max(config.num_workers, 1)
    wanted = math.ceil(now * collecting / (COLLECTING_BESIDE_THE_REST * max(1 - collecting, 1e-3)))
    workers = min(wanted, cpus - 1)
    if workers > config.num_workers and workers > 1:
        return f"{begin}, most of it in envs: try num_workers: {workers}, now {config.num_workers}"
    return f"{begin}, and the {cpus} CPUs of this machine have no room for more workers; see scaling.md"


def _phases(profile: Profile) -> list[str]:
    return list(dict.fromkeys(phase for worker in profile.workers for phase in worker.phases))
