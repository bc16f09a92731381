"""Discounted returns of the data that a policy learns from, with which its values are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.input_config import InputConfig
from rlrun.engine.datasets.input_sets import opened
from rlrun.engine.datasets.transitions import returns_to_go, rewards_at
from rlrun.engine.messages.errors import RlrunError


@dataclass(frozen=True)
class DataReturns:
    """Discounted returns to go of recorded steps.

    Attributes:
        mean: Their mean.
        largest: The largest of them.
    """

    mean: float
    largest: float


def data_returns(config: Mapping[str, Any]) -> DataReturns | None:
    """Returns of the data that an algorithm's settings name; None without data that can be read."""
    parts = [InputConfig.parse(part) for part in config.get("input") or ()]
    try:
        found = [continued_returns(opened(part), float(config["gamma"]), config.get("clip_rewards")) for part in parts]
    except (RlrunError, KeyError):
        return None
    returns = np.concatenate(found) if found else np.empty(0)
    return DataReturns(float(returns.mean()), float(returns.max())) if returns.size else None


def continued_returns(data: DataSet, gamma: float, clip_rewards: float | None) -> NDArray[np.float64]:
    """Discounted return of each step, [N], as if truncated episodes went on with their mean reward for ever.

    Args:
        data: The data set.
        gamma: Discount factor; with 1, truncated episodes are not continued.
        clip_rewards: Bound to which each reward is clipped; None for none.
    """
    returns = returns_to_go(data, gamma, clip_rewards)
    starts, lengths = data.episodes
    starts, lengths = starts[lengths > 0], lengths[lengths > 0]
    rows = np.arange(lengths.sum()) + np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    if gamma < 1:
        goes_on = ~data.rows(starts + lengths - 1, ("terminateds",))["terminateds"]
        sums = np.add.reduceat(rewards_at(data, rows, clip_rewards), np.cumsum(lengths) - lengths)
        steps_left = np.repeat(starts + lengths, lengths) - rows
        returns[rows] += gamma**steps_left * np.repeat(goes_on * sums / lengths, lengths) / (1 - gamma)
    own: NDArray[np.float64] = returns[rows]
    return own
