"""Dataflow of linear bandits."""

from __future__ import annotations

from typing import Any

from rlrun.algorithms.bandits.regressions import RegressRewards
from rlrun.algorithms.bandits.settings import LinearBanditConfig
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Flow
from rlrun.engine.flow.operators.batches import ConcatBatches
from rlrun.engine.flow.operators.weights import BroadcastWeights
from rlrun.engine.flow.trainee import Trainee


def regressed_rewards(fragments: Flow[SampleBatch], trainee: Trainee, config: LinearBanditConfig) -> Flow[Any]:
    """Dataflow of a linear bandit: concatenates pulls, fits ridge regressions, and broadcasts the coefficients.

    Args:
        fragments: Stream of the workers' fragments.
        trainee: Trainee with a `LinearBanditPolicy`.
        config: Settings of the linear bandit.
    """
    return (
        fragments.combine(ConcatBatches(config.env_steps_per_update, exact=True))
        .for_each(RegressRewards(trainee, config.ridge))
        .for_each(BroadcastWeights(trainee))
    )
