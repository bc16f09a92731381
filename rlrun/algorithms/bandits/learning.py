"""The dataflow that algorithms of linear bandits share, however they explore."""

from __future__ import annotations

from typing import Any

from rlrun.algorithms.bandits.regressions import RegressRewards
from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Flow
from rlrun.flow.operators.batches import ConcatBatches
from rlrun.flow.operators.weights import BroadcastWeights
from rlrun.flow.trainee import Trainee


def regressed_rewards(
    fragments: Flow[SampleBatch], trainee: Trainee, *, env_steps_per_update: int, ridge: float
) -> Flow[Any]:
    """Returns the pulls of all workers, regressed on what was observed, with new coefficients to everyone.

    Args:
        fragments: What the workers deliver.
        trainee: Whose policy is a `LinearBanditPolicy`.
        env_steps_per_update: Steps of all workers between two turns of learning.
        ridge: Weight of the coefficients' squared norm.
    """
    return (
        fragments.combine(ConcatBatches(env_steps_per_update, exact=True))
        .for_each(RegressRewards(trainee, ridge))
        .for_each(BroadcastWeights(trainee))
    )
