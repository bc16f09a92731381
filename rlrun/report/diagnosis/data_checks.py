"""Symptoms of learning from data: values above the data's returns, actions beyond its support, uneven weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rlrun.report.diagnosis.evidence import CLIPPED_WEIGHTS, EFFECTIVE_PARTS, OUTSIDE, POLICY_VALUES, Evidence
from rlrun.report.diagnosis.finding import Finding, Remedy, advised, number_text

MOSTLY = 0.5
"""Part of a minibatch that counts as most of it."""
STILL = 0.01
"""Relative change of values in the last quarter of a training that counts as none."""
FEW = 0.05
"""Effective part of a minibatch below which its weights rest on few actions."""


def _values_above_data(one: Evidence) -> Finding | None:
    value, before = one.end(*POLICY_VALUES), one.usual(*POLICY_VALUES)
    is_falling = value < before - STILL * abs(before)  # as where negative values are not learned yet
    if one.is_healthy or one.recorded is None or is_falling or not value > one.recorded.largest:
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
    if one.is_healthy or not outside > MOSTLY:
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
    if one.is_healthy or not clipped > MOSTLY:
        return None
    found = f"{clipped:.0%} of the recorded actions have the weight max_weight"
    reason = "they are imitated alike, whatever their advantages"
    advice = advised(one.config, Remedy("beta", "a smaller {}"), "rewards that are scaled")
    return Finding("saturated weights", found, reason, advice)


def _few_weights_count(one: Evidence) -> Finding | None:
    effective = one.end(*EFFECTIVE_PARTS)
    if one.is_healthy or not effective < FEW:
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
