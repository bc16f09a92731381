"""Symptoms of learning from data: values above the data's returns, actions beyond its support, uneven weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.datasets.data_set import DataSet
from rlrun.datasets.input_config import InputConfig
from rlrun.datasets.input_sets import opened
from rlrun.datasets.transitions import returns_to_go, rewards_at
from rlrun.errors import RlrunError
from rlrun.report.diagnosis.evidence import CLIPPED_WEIGHTS, EFFECTIVE_PARTS, OUTSIDE, POLICY_VALUES, Evidence
from rlrun.report.diagnosis.finding import Finding, Remedy, advised, number_text

MOSTLY = 0.5
"""Part of a minibatch that counts as most of it."""
STILL = 0.01
"""Relative change of values in the last quarter of a training that counts as none."""
FEW = 0.05
"""Effective part of a minibatch below which its weights rest on few actions."""


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


def _values_above_data(one: Evidence) -> Finding | None:
    value, before = one.end(*POLICY_VALUES), one.usual(*POLICY_VALUES)
    is_falling = value < before - STILL * abs(before)  # as where negative values are not learned yet
    if one.is_well or one.recorded is None or is_falling or not value > one.recorded.largest:
        return None
    found = f"{number_text(value)} on average; returns of the data are {number_text(one.recorded.mean)} on average, "
    found += f"{number_text(one.recorded.largest)} at most"
    reason = (
        "nothing corrects values of actions that the data does not show, and the policy seeks those that are too large"
    )
    advice = advised(
        one.config,
        Remedy("conservative_weight", "a larger {}"),
        Remedy("value_weight", "a smaller {}"),
        Remedy("critic_lr", "a smaller {}"),
        Remedy("tau", "a smaller {}"),
    )
    return Finding("values above the data's returns", found, reason, advice)


def _actions_outside_data(one: Evidence) -> Finding | None:
    outside = one.end(*OUTSIDE)
    if one.is_well or not outside > MOSTLY:
        return None
    found = f"{outside:.0%} of the policy's actions are beyond all recorded ones"
    reason = "nothing is known about such actions: their values are extrapolated"
    advice = advised(
        one.config,
        Remedy("conservative_weight", "a larger {}"),
        Remedy("value_weight", "a smaller {}"),
        "iql, which values recorded actions alone",
    )
    return Finding("actions outside the data", found, reason, advice)


def _weights_at_bound(one: Evidence) -> Finding | None:
    clipped = one.end(*CLIPPED_WEIGHTS)
    if one.is_well or not clipped > MOSTLY:
        return None
    found = f"{clipped:.0%} of the recorded actions have the weight max_weight"
    reason = "they are imitated alike, whatever their advantages"
    advice = advised(one.config, Remedy("beta", "a smaller {}"), "rewards that are scaled")
    return Finding("saturated weights", found, reason, advice)


def _few_weights_count(one: Evidence) -> Finding | None:
    effective = one.end(*EFFECTIVE_PARTS)
    if one.is_well or not effective < FEW:
        return None
    found = f"the weights make {effective:.1%} of a minibatch count"
    reason = "updates follow a few actions, and most of the data has no effect"
    larger = Remedy("advantage_norm_start", "a larger {}")
    advice = advised(one.config, Remedy("beta", "a smaller {}"), Remedy("max_weight", "a smaller {}"), larger)
    return Finding("few weights count", found, reason, advice)


DATA_SYMPTOMS: Sequence[Callable[[Evidence], Finding | None]] = (
    _values_above_data,
    _actions_outside_data,
    _weights_at_bound,
    _few_weights_count,
)
"""All checks for symptoms of learning from data, in the order of their findings."""
