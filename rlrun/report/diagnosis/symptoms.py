"""Checks of a diagnosis for symptoms: unusual metrics, online or offline, in trials without a known root cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rlrun.experiments.runs.trial_status import is_complete
from rlrun.report.diagnosis.causes import large_entropy_bonus
from rlrun.report.diagnosis.evidence import (
    CLIPPED_WEIGHTS,
    EFFECTIVE_PARTS,
    ENTROPIES,
    ERRORS_BEYOND_HUBER,
    GRADIENT_NORMS,
    LOST,
    OUTSIDE,
    POLICY_VALUES,
    RETURNS,
    TEMPERATURE,
    VALUE_MEANS,
    Evidence,
)
from rlrun.report.diagnosis.finding import (
    LARGER_BATCH,
    MORE_EPOCHS,
    SCALED_IN_ENV,
    SCALED_REWARDS,
    SMALLER_LR,
    SMALLER_SCALE,
    USUAL_BOUND,
    Finding,
    Remedy,
    advised,
    number_text,
)

MOSTLY = 0.5
"""Fraction of a minibatch (of rows with outside actions, or with clipped weights) above which a finding is reported."""
STILL = 0.01
"""Relative change of values in the last quarter of training below which they count as constant."""
FEW = 0.05
"""Effective sample size of a minibatch's weights, as a fraction of the rows, below which few rows dominate."""


def _values_above_data(one: Evidence) -> Finding | None:
    value, before = one.end(*POLICY_VALUES), one.usual(*POLICY_VALUES)
    is_falling = value < before - STILL * abs(before)  # for example, while negative values are not learned yet
    if one.is_healthy or one.recorded is None or is_falling or not value > one.recorded.largest:
        return None
    found = f"{number_text(value)} on average; the data's returns are {number_text(one.recorded.mean)} on average, "
    found += f"at most {number_text(one.recorded.largest)}"
    reason = "nothing corrects values of actions that are not in the data, and the policy prefers overestimated actions"
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
    found = f"{outside:.0%} of the policy's actions are outside the range of the recorded actions"
    reason = "the data contains no such actions, so their values are extrapolated"
    advice = advised(
        one.config,
        Remedy("conservative_weight", "a larger {}"),
        Remedy("value_weight", "a smaller {}"),
        "iql, which uses only values of recorded actions",
    )
    return Finding("actions outside the data", found, reason, advice)


def _weights_at_bound(one: Evidence) -> Finding | None:
    clipped = one.end(*CLIPPED_WEIGHTS)
    if one.is_healthy or not clipped > MOSTLY:
        return None
    found = f"{clipped:.0%} of the recorded actions have the maximum weight (max_weight)"
    reason = "they are all imitated equally, regardless of their advantages"
    advice = advised(one.config, Remedy("beta", "a smaller {}"), SMALLER_SCALE, SCALED_IN_ENV)
    return Finding("saturated weights", found, reason, advice)


def _few_weights_count(one: Evidence) -> Finding | None:
    effective = one.end(*EFFECTIVE_PARTS)
    if one.is_healthy or not effective < FEW:
        return None
    found = f"the effective sample size of a minibatch is {effective:.1%}"
    reason = "a few actions dominate the updates, and most of the data has no effect"
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


LARGE_KL = 0.1
"""KL divergence per update, in nats, that counts as large. PPO learns with 0.01 to 0.03 (its paper's target is 0.01);
far beyond, the clipped loss is flat."""
LARGE_CLIP_FRACTION = 0.5
SMALL_KL = 1e-5
LITTLE_ENTROPY = 0.05
"""Fraction of the initial entropy below which a policy no longer explores."""
UNMOVED_ENTROPY = 0.98
POOR_EXPLAINED_VARIANCE = 0.1
LONG_ENOUGH = 10
"""Number of result rows after which a value function should explain some variance."""
GREATLY_CLIPPED = 100.0
"""Ratio of the gradient's norm to the clipping threshold above which clipping is reported."""
VERY_LARGE_KL = 1.0
"""KL divergence per update, in nats, that no useful update exceeds."""
MOST_LAG = 10.0
"""Policy lag in updates, beyond which importance weights are mostly clipped."""
IMPOSSIBLE_VALUE = 1.5
"""Ratio of estimated values to the largest value that the returns so far allow; rewards of both signs may sum to more
than a return."""
NEAR_0 = 0.1
"""Bound of value estimates on the side of 0 without any returns, as a fraction of the bound on the other side."""
GROWING = 10
"""Number of results, at the end of a run, in each of which values must rise to count as growing without bound."""
STILL_EXPLORING = 0.5
MOSTLY_BEYOND = 0.5
"""Fraction of TD errors in the linear part of the Huber loss above which a finding is reported."""


def _no_better_than_random(one: Evidence) -> Finding | None:
    if one.random is None or one.has_learned or not one.values(*RETURNS).size:
        return None
    found = f"best {number_text(one.best)}; random policy {number_text(one.random.mean)}"
    found += f" (standard deviation {number_text(one.random.std)})"
    reason = "there is no evidence that the policy has learned anything"
    return Finding("no better than random", found, reason, "fixing the other findings, or else a longer run")


def _collapsed(one: Evidence) -> Finding | None:
    if not one.has_learned or one.lost < LOST:
        return None
    found = f"best {number_text(one.best)}, final {number_text(one.end(*RETURNS))}"
    cause = "values grow" if _values_grow(one) else "updates are too large late in training"
    reason = f"{one.lost:.0%} of the gain over a random policy was lost: {cause}"
    falls = Remedy("lr", "a decreasing {}, such as [[0, 3.0e-4], [end, 0]]")
    advice = advised(one.config, falls, "using the checkpoint kept by checkpoint.best")
    return Finding("performance collapse", found, reason, advice)


def _large_policy_updates(one: Evidence) -> Finding | None:
    divergence, clipped = one.usual("learner/kl"), one.usual("learner/clip_fraction")
    most = max(one.values("learner/kl"), default=0.0)
    if one.is_healthy or not (divergence > LARGE_KL or clipped > LARGE_CLIP_FRACTION or most > VERY_LARGE_KL):
        return None
    divergence = divergence if divergence > LARGE_KL else most
    found = f"KL divergence {number_text(divergence)} nats per update"
    if clipped > 0:
        found += f", {clipped:.0%} of the steps clipped"
    reason = "the data of an update says little about a policy so far from the behavior policy"
    fewer = (Remedy("lr", "{} three times smaller"), Remedy("num_epochs", "fewer {}"))
    advice = advised(one.config, *fewer, Remedy("early_stop_kl", "{}: 0.02", 0.02))
    return Finding("large policy updates", found, reason, advice)


def _tiny_policy_updates(one: Evidence) -> Finding | None:
    divergence = one.usual("learner/kl")
    if one.is_healthy or not divergence < SMALL_KL or _large_policy_updates(one) or _clipped_gradients(one):
        return None
    found = f"KL divergence {number_text(divergence)} nats per update"
    advice = advised(one.config, Remedy("lr", "{} three times larger"))
    return Finding("tiny policy updates", found, "updates hardly change the policy", advice)


def _entropy_collapsed(one: Evidence) -> Finding | None:
    begin, end = one.begin(*ENTROPIES), one.end(*ENTROPIES)
    if one.is_healthy or one.is_of_data or not begin > 0 or not end < LITTLE_ENTROPY * begin:
        return None
    found = f"{number_text(end)} nats, {number_text(begin)} at the start"
    reason = "the policy always takes the same actions, so it cannot find better ones"
    bonus = Remedy("entropy_coeff", "{}: 0.01 (or three times its value)")
    return Finding("entropy collapse", found, reason, advised(one.config, bonus, SMALLER_LR))


def _entropy_unchanged(one: Evidence) -> Finding | None:
    begin, end = one.begin(*ENTROPIES), one.end(*ENTROPIES)
    is_short = len(one.values(*ENTROPIES)) < LONG_ENOUGH
    if one.is_healthy or is_short or not end > UNMOVED_ENTROPY * begin > 0:
        return None
    if _tiny_policy_updates(one) or _clipped_gradients(one) or large_entropy_bonus(one):
        return None
    found = f"{number_text(end)} nats, {number_text(begin)} at the start"
    reason = "the policy is still nearly uniform: advantages are too small, or have no effect"
    remedies = (Remedy("lr", "{} three times larger"), Remedy("entropy_coeff", "{}: 0", 0.0))
    return Finding("entropy unchanged", found, reason, advised(one.config, *remedies))


def _poor_values(one: Evidence) -> Finding | None:
    explained = one.usual("learner/explained_variance")
    rows = len(one.values("learner/explained_variance"))
    if one.is_healthy or rows < LONG_ENOUGH or not explained < POOR_EXPLAINED_VARIANCE or _tiny_policy_updates(one):
        return None
    advice = advised(
        one.config,
        Remedy("normalize_rewards", "{}: true if rewards are large", True),
        Remedy("vf_loss_coeff", "{}: 1.0", 1.0),
        MORE_EPOCHS,
        "a longer run",
    )
    found = f"explained_variance {number_text(explained)}"
    return Finding("values explain nothing", found, "advantages then have the full variance of returns", advice)


def _clipped_gradients(one: Evidence) -> Finding | None:
    norm, most = one.usual(*GRADIENT_NORMS), one.config.get("max_grad_norm")
    if one.is_healthy or not isinstance(most, int | float) or not norm > GREATLY_CLIPPED * most:
        return None
    found = f"norm {number_text(norm)}, clipped to max_grad_norm {most:g}"
    if most < USUAL_BOUND and norm <= GREATLY_CLIPPED * USUAL_BOUND:
        reason = "the bound is far below typical gradient norms"
        advice = advised(one.config, Remedy("max_grad_norm", f"{{}}: {USUAL_BOUND}"))
    else:
        reason = "one loss dominates the others, usually the value loss when rewards are large"
        advice = advised(one.config, *SCALED_REWARDS)
    return Finding("clipped gradients", found, reason, advice)


def _values_grow(one: Evidence) -> Finding | None:
    metric = next((name for name in VALUE_MEANS if one.values(name).size), "")
    bounds = _value_bounds(one)
    rescaled = one.config.get("normalize_rewards") or one.config.get("scale_rewards")
    if not metric or bounds is None or rescaled:  # rescaling changes the unit of values
        return None
    end, (low, high) = one.end(metric), bounds
    name = metric.rpartition("/")[2]
    if IMPOSSIBLE_VALUE * low < end < IMPOSSIBLE_VALUE * high:
        begin = _steady_growth(one, metric)
        if begin is None:
            return None
        last = number_text(float(one.values(metric)[-1]))
        found = (
            f"{name} rose in each of the last {GROWING} results, from {number_text(begin)} to {last}, while returns "
            "fell"
        )
    else:
        found = f"{name} is {number_text(end)}, but the returns so far allow "
        found += f"at most {number_text(high)}" if end > 0 else f"at least {number_text(low)}"
    reason = (
        "values bootstrap from overestimated values, so they diverge; if episodes are truncated, no reward "
        "ever corrects the last value"
    )
    advice = advised(
        one.config,
        Remedy("critic_lr" if "critic_lr" in one.config else "lr", "{} divided by ten"),
        Remedy("target_update_interval", "a larger {}"),
        Remedy("tau", "a smaller {}"),
        Remedy("double", "{}: true", True),
        "terminating episodes at a time limit instead of truncating them (if observations or the world's state "
        "include the time), or removing the time from observations",
    )
    return Finding("values grow", found, reason, advice)


def _errors_beyond_huber(one: Evidence) -> Finding | None:
    beyond = one.end(*ERRORS_BEYOND_HUBER)
    if one.is_healthy or not beyond > MOSTLY_BEYOND:
        return None
    found = f"{beyond:.0%} of the TD errors exceed config.huber ({one.config.get('huber')})"
    reason = "if most errors are in its linear part, a Huber loss learns the median of the targets instead of the mean"
    bound = Remedy("huber", "{}: null (a squared error)")
    advice = advised(one.config, bound, *SCALED_REWARDS[1:])
    return Finding("errors beyond huber", found, reason, advice)


def _steady_growth(one: Evidence, metric: str) -> float | None:
    """Value from which a metric rose steadily in the last results, to above every return seen, while returns fell.

    None if there was no such growth.
    """
    values, returns = one.values(metric)[-GROWING - 1 :], one.values(*RETURNS)[-GROWING:]
    if len(values) <= GROWING or len(returns) < GROWING or (np.diff(values) <= 0).any():
        return None
    fell = returns[GROWING // 2 :].mean() < returns[: GROWING // 2].mean()
    seen = one.values("episode_return_max")
    return float(values[0]) if fell and seen.size and values[-1] > _agents(one) * _scale(one) * seen.max() else None


def _agents(one: Evidence) -> int:
    """Number of agents over whose returns a value sums."""
    return max(1, one.num_agents) if one.config.get("team_reward") == "sum" else 1


def _scale(one: Evidence) -> float:
    return float(one.config.get("reward_scale", 1.0))


def _value_bounds(one: Evidence) -> tuple[float, float] | None:
    """Lowest and highest value that returns, scaled and clipped rewards, and the entropy bonus allow, None if unknown.

    Where hardly any return is below 0 (or above), a tenth of the other bound is allowed: estimates near 0 have either
    sign.
    """
    returns = np.append(one.values("episode_return_min"), one.values("episode_return_max"))
    length, gamma = one.usual("episode_len_mean"), one.config.get("gamma", 0.99)
    if not returns.size or not length >= 1 or not isinstance(gamma, int | float):
        return None
    clip = one.config.get("clip_rewards")
    ends = _scale(one) * returns.min(), _scale(one) * returns.max()
    low, high = (largest_value(float(each), length, gamma) for each in ends)
    if isinstance(clip, int | float) and gamma < 1:
        low, high = -clip / (1 - gamma), clip / (1 - gamma)
    bonus = float(np.nan_to_num(abs(one.usual(*ENTROPIES)) * one.usual(TEMPERATURE))) / max(1 - gamma, 1e-6)
    above, below = (_agents(one) * max(near, NEAR_0 * far, 0.0) for near, far in ((high, -low), (-low, high)))
    return -max(below + bonus, 1e-6), max(above + bonus, 1e-6)


def largest_value(largest_return: float, length: float, gamma: float) -> float:
    """Largest discounted sum of rewards that is possible given bounded episode returns.

    A truncated episode is valued as if it continued. In the extreme case, each episode of an endless sequence pays its
    whole return in its first step: the sum over k of R gamma^(k L) is R / (1 - gamma^L). Without discounting there is
    no such bound, and the result is R.

    Args:
        largest_return: R, the largest return of an episode; with the smallest return, the result is the smallest sum.
        length: L, the mean number of steps in an episode, at least 1.
        gamma: The discount per step.

    Examples:
        >>> largest_value(10.0, 1.0, 0.5), largest_value(10.0, 1.0, 1.0)
        (20.0, 10.0)
    """
    return largest_return if gamma >= 1 else largest_return / (1 - gamma**length)


def _still_exploring(one: Evidence) -> Finding | None:
    epsilon = one.end("learner/epsilon")
    if one.is_healthy or not epsilon > STILL_EXPLORING or not is_complete(one.trial.status):
        return None
    found = f"epsilon {number_text(epsilon)} at the end of the run"
    reason = "most training actions are still random, which lowers the training returns"
    falls = Remedy("epsilon", "{}: [[0, 1.0], [10_000, 0.05]]")
    return Finding("still exploring", found, reason, advised(one.config, falls, "a longer run"))


def _stale_experience(one: Evidence) -> Finding | None:
    lag = one.usual("policy_lag_mean")
    if one.is_healthy or not one.descends_gradients or not lag > MOST_LAG:
        return None
    advice = advised(
        one.config,
        Remedy("broadcast_interval", "{}: 1", 1),
        Remedy("gradients_in_flight", "{}: 1", 1),
        Remedy("num_workers", "fewer {}", 0),
        Remedy("rollout_fragment_length", "a smaller {}"),
        LARGER_BATCH,
    )
    found = f"experience is {number_text(lag)} updates old"
    return Finding("stale experience", found, "the behavior policies differ too much from the current policy", advice)


SYMPTOMS: tuple[Callable[[Evidence], Finding | None], ...] = (
    _values_grow,
    _collapsed,
    _errors_beyond_huber,
    _clipped_gradients,
    _large_policy_updates,
    _tiny_policy_updates,
    _entropy_collapsed,
    _entropy_unchanged,
    _poor_values,
    _still_exploring,
    _stale_experience,
    *DATA_SYMPTOMS,
    _no_better_than_random,
)
"""All checks for symptoms, in the order of their findings."""
