"""Dataflow of a generation in evolution strategies: gathered returns, observation statistics, fitness shaping."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.evolution.candidates import Returns
from rlrun.algorithms.evolution.exact_sums import ExactSums
from rlrun.engine.flow.flow import Flow, Operator, StatefulOperator
from rlrun.engine.flow.trainee import Trainee
from rlrun.engine.messages.errors import CheckpointError
from rlrun.engine.settings.metric import Metric

RETURN_METRICS = (
    Metric("generation/return_mean", "", "Mean return of the candidates in the latest generation", mode="max"),
    Metric("generation/return_max", "", "Return of the best candidate in the latest generation", mode="max"),
)


def joined_returns(shares: Sequence[Returns]) -> Returns:
    """Concatenates all workers' returns of a generation, ordered by candidate."""
    candidates = np.concatenate([share.candidates for share in shares])
    order = np.argsort(candidates)
    seen: dict[str, ExactSums] = {}
    for share in shares:
        for name, sums in share.seen.items():
            seen[name] = seen[name].merged(sums) if name in seen else sums
    returns = np.concatenate([share.returns for share in shares])[order]
    measured = [share.overshoots for share in shares if share.overshoots is not None]
    overshoots = np.concatenate(measured)[order] if measured else None
    return replace(shares[0], candidates=candidates[order], returns=returns, seen=seen, overshoots=overshoots)


def generations(items: Flow[Any], trainee: Trainee) -> Flow[Returns]:
    """Creates the stream of evaluated generations, which gathers all workers' results and reports the returns.

    Args:
        items: Stream of each worker's evaluation results.
        trainee: The policy in training to which the candidates belong.
    """
    gathered = items.zip_with_worker().combine(GatherWorkers(trainee))
    return gathered.for_each(joined_returns).for_each(ReportReturns())


class MergeObservations(Operator):
    """Merges a generation's observations into the running mean and standard deviation of the observation filter."""

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee

    @override
    def __call__(self, item: Returns) -> Returns:
        self.trainee.filters.merge({name: sums.moments() for name, sums in item.seen.items()})
        return item


class ReportReturns(Operator):
    """Reports the mean and the maximum of the candidates' returns in a generation as metrics."""

    declared_metrics = RETURN_METRICS

    def __init__(self) -> None:
        self._latest: NDArray[np.float64] | None = None

    @override
    def __call__(self, item: Returns) -> Returns:
        self._latest = item.returns
        return item

    @override
    def metrics(self) -> dict[str, float]:
        if self._latest is None:
            return {}
        return {
            "generation/return_mean": float(self._latest.mean()),
            "generation/return_max": float(self._latest.max()),
        }


def ranks_within_bounds(returns: NDArray[Any], overshoots: NDArray[Any]) -> NDArray[np.float64]:
    """Ranks [n], from 1 - n to 0, of returns minus a penalty for actions outside their bounds.

    Since actions are clipped to the bounds, returns do not change beyond them, and without a penalty the search would
    not come back to actions within the bounds. The penalty is the overshoot divided by the overshoots' standard
    deviation, times half the interquartile range of returns. The penalty vanishes with this range, so that actions at
    the bounds remain possible. Ties are ranked by lower overshoot.

    Args:
        returns: Return of each candidate, [n].
        overshoots: Mean squared overshoot of each candidate's actions over the bounds, [n].

    Source:
        The penalty of squared distances, scaled by the interquartile range, follows pycma's `BoundPenalty`: Hansen et
        al., IEEE Transactions on Evolutionary Computation 13 (2009), addendum. There, distances of parameters are
        divided by the step size, with adaptive weights. Here, overshoots of actions are divided by their standard
        deviation, with weight 1/2.
    """
    spread = float(overshoots.std())
    lowest, highest = np.percentile(returns, [25, 75])
    penalties = (highest - lowest) / 2 * overshoots / spread if spread > 0 else np.zeros(len(returns))
    ranks = np.empty(len(returns))
    ranks[np.lexsort((overshoots, penalties - returns))] = -np.arange(len(returns))
    return ranks


def centred_ranks(returns: NDArray[Any]) -> NDArray[np.float64]:
    """Centered ranks, from -1/2 for the lowest to 1/2 for the highest return; equal returns share their mean rank.

    Source:
        Salimans et al., arXiv:1703.03864, section 2.1 (fitness shaping), as in their code.

    Examples:
        >>> centred_ranks(np.array([3.0, 1.0, 3.0]))
        array([ 0.25, -0.5 ,  0.25])
    """
    _, which, counts = np.unique(returns.ravel(), return_inverse=True, return_counts=True)
    firsts = np.cumsum(counts) - counts
    ranks = (firsts + (counts - 1) / 2)[which.ravel()].reshape(returns.shape)
    result: NDArray[np.float64] = ranks / max(returns.size - 1, 1) - 0.5
    return result


class GatherWorkers(StatefulOperator):
    """Gathers one item per worker into a list, ordered by worker.

    Inputs are pairs (worker index, item). Additional items of a faster worker are queued for later rounds.
    """

    def __init__(self, trainee: Trainee) -> None:
        self.workers = trainee.workers
        self._waiting: dict[int, list[Any]] = {worker: [] for worker in self.workers.indices}

    @override
    def __call__(self, item: tuple[int | None, Any]) -> Iterable[list[Any]]:
        """Emits a list with one item per worker when all have arrived, else nothing."""
        worker, delivered = item
        if worker is None:
            raise RuntimeError("gathering by worker needs items that come from workers")
        if any(type(waits) is not type(delivered) for waits in self._waiting[worker]):
            raise CheckpointError("the checkpoint's waiting items are not of the kind that workers deliver")
        self._waiting[worker].append(delivered)
        if not all(self._waiting.values()):
            return []
        return [[waiting.pop(0) for waiting in self._waiting.values()]]

    @override
    def state(self) -> dict[str, Any]:
        return {"waiting": {str(worker): list(waiting) for worker, waiting in self._waiting.items()}}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        waiting = {int(worker): list(items) for worker, items in state["waiting"].items()}
        if waiting.keys() != self._waiting.keys():
            raise ValueError(
                f"the checkpoint has items of workers {list(waiting)}, but this run has workers {list(self._waiting)}"
            )
        self._waiting = waiting
