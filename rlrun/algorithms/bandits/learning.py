"""Dataflow of linear bandits."""

from __future__ import annotations

from typing import Any

from rlrun.algorithms.bandits.regressions import RegressRewards
from rlrun.algorithms.bandits.settings import LinearBanditConfig
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow
from rlrun.flow.operators.batches import ConcatBatches
from rlrun.flow.operators.weights import BroadcastWeights
from rlrun.flow.trainee import Trainee


def regressed_rewards(fragments: Flow[SampleBatch], trainee: Trainee, config: LinearBanditConfig) -> Flow[Any]:
    """Ridge regression of rewards on the contexts of each batch of pulls; broadcasts the new coefficients.

    Args:
        fragments: The workers' fragments.
        trainee: The training of a `LinearBanditPolicy`.
        config: The algorithm's settings.
    """
    return (
        fragments.combine(ConcatBatches(config.env_steps_per_update, exact=True))
        .for_each(RegressRewards(trainee, config.ridge))
        .for_each(BroadcastWeights(trainee))
    )
