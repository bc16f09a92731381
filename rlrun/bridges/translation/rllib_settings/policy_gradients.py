"""Conversions of policy-gradient settings: losses, coefficients, clipping, and batches."""

from __future__ import annotations

from typing import Any

from rlrun.bridges.translation.foreign_settings import OMIT, Conversions, ForeignSettings, only
from rlrun.bridges.translation.meanings import Impact
from rlrun.bridges.translation.rllib_settings.units import SUMMED_LOSSES, points, round_off, rows_of_sum, workers

conversion = Conversions()
"""Conversions by name, and the decorator that adds one."""


@conversion
def learning_rate(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts RLlib's `lr`; omits it if `lr_schedule` is set, which takes precedence."""
    return OMIT if foreign.get("lr_schedule") is not None else value


@conversion
def schedule(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts an RLlib schedule to pairs of step and value, in the unit of steps that rlrun uses; omits null."""
    return OMIT if value is None else points(foreign, value)


@conversion
def entropy_weight(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the entropy coefficient, whose sign was reversed in RLlib's A3C, A2C and IMPALA up to 0.6.

    In RLlib's new API stack, IMPALA adds the mean entropy to losses that are sums; the coefficient is rescaled.
    """
    if foreign.get("entropy_coeff_schedule") is not None:
        return OMIT
    if isinstance(value, int | float) and value < 0:
        if foreign.algorithm not in SUMMED_LOSSES:
            foreign.tell(key, "a negative weight would penalize entropy", Impact.LEARNING)
            return OMIT
        return -value
    is_mean = foreign.algorithm == "IMPALA" and foreign.get("_enable_learner_api")
    return round_off(value / rows_of_sum(foreign)) if is_mean else value


@conversion
def halved_value_weight(foreign: ForeignSettings, key: str, value: Any) -> float:
    """Halves the coefficient of the value loss, since RLlib's A2C, A3C, IMPALA and APPO use half the squared error."""
    return float(value) / 2


@conversion
def value_clip(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Keeps PPO's threshold for value clipping; adds a remark that since 1.13 RLlib clips the squared error instead."""
    if foreign.source.version >= (1, 13):
        text = "in rlrun it bounds the change of the value; in RLlib, larger squared errors had no gradient"
        foreign.tell(key, text)
    return value


@conversion
def gradient_norm(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the threshold for gradient clipping from sums over a batch (RLlib's A2C, A3C and IMPALA) to means.

    For IMPALA, the normalization of rewards is switched off, since RLlib's threshold applies to unscaled rewards.
    """
    if foreign.algorithm == "IMPALA":
        foreign.put("config.normalize_rewards", False, key)
    if value is None or value is False:
        return None
    return round_off(value / rows_of_sum(foreign)) if foreign.algorithm in SUMMED_LOSSES else value


@conversion
def penalty_of_ppo(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Converts the initial weight and the target of PPO's KL penalty; omits both if the weight is 0."""
    return {"coeff": value, "target": foreign.get("kl_target", 0.01)} if value else OMIT


@conversion
def penalty(foreign: ForeignSettings, key: str, value: Any) -> Any:
    """Omits the KL penalty of algorithms other than PPO, and adds a remark."""
    if value:
        foreign.tell(key, f"rlrun has no KL penalty (weight {value:g}); only clipping bounds an update")
    return OMIT


@conversion
def penalty_of_appo(foreign: ForeignSettings, key: str, value: Any) -> float:
    """Converts the coefficient of APPO's KL penalty: 0 without `use_kl_loss`."""
    if foreign.get("use_kl_loss") and foreign.has("kl_coeff"):
        foreign.tell(key, "constant in rlrun; RLlib adapted it to kl_target")
        return float(value)
    return 0.0


@conversion
def trace_decay(foreign: ForeignSettings, key: str, value: Any) -> float:
    """Converts APPO's lambda to 1, since RLlib ignores it with V-trace."""
    if value != 1:
        foreign.tell(key, "RLlib's V-trace had no lambda; rlrun uses 1", Impact.NONE)
    return 1.0


@conversion
def minibatch_size(foreign: ForeignSettings, key: str, value: Any) -> int:
    """Converts the minibatch size (at most a batch); for DD-PPO, from steps per worker to steps of all workers."""
    if foreign.algorithm == "DDPPO":
        return int(value) * max(workers(foreign), 1)
    return min(int(value), int(foreign.get("train_batch_size")))


conversion["only_vtrace"] = only((True, 1), "rlrun always corrects values with V-trace", Impact.LEARNING)
conversion["only_gae"] = only(
    (True, 1), "rlrun always uses GAE; gae_lambda 1 gives returns minus values", Impact.SLIGHT
)
conversion["only_adam"] = only(("adam", None), "rlrun uses Adam", Impact.SLIGHT)
