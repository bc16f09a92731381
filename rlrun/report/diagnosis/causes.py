"""Checks of a diagnosis for root causes, such as a zero learning rate.

Trials that have a root cause are not checked for symptoms.

A definite cause explains a failure by itself. A likely cause is a setting far outside its usual range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from rlrun.experiments.runs.trial_status import is_complete
from rlrun.experiments.trial.results import RETURN
from rlrun.report.diagnosis.evidence import ENTROPIES, GRADIENT_NORMS, RATES, TEMPERATURE, Evidence
from rlrun.report.diagnosis.finding import MORE_EPOCHS, Finding, Remedy, advised, number_text

FEW_MINIBATCHES = 200
"""Number of SGD steps below which a network has hardly changed; classic control takes a few thousand."""


def _learns_nothing(one: Evidence) -> Finding | None:
    if one.algorithm != "random":
        return None
    reason = "it is only a baseline for other algorithms"
    return Finding(
        "does not learn",
        "the algorithm random takes random actions",
        reason,
        "another algorithm from `rlrun algorithms`",
    )


def _no_episode_ended(one: Evidence) -> Finding | None:
    if one.values(RETURN).size or not one.end("env_steps"):  # some algorithms do not step an env
        return None
    found = f"no episode ended in {number_text(one.end('env_steps'))} env steps"
    reason = "without finished episodes there are no returns, and algorithms without bootstrapping have no targets"
    return Finding("no episode ends", found, reason, "env.max_episode_steps: 1000")


def _learning_has_not_started(one: Evidence) -> Finding | None:
    steps, starts = one.most("agent_steps", "env_steps"), one.config.get("learning_starts")
    if not isinstance(starts, int) or not starts >= steps > 0 or not is_complete(one.trial.status):
        return None
    found = f"{number_text(steps)} steps in total, but learning_starts is {starts:,}"
    advice = advised(one.config, Remedy("learning_starts", f"{{}} below {steps:,.0f}"), "a longer run")
    return Finding("learning has not started", found, "no minibatch was learned from", advice)


def _few_updates(one: Evidence) -> Finding | None:
    minibatches = one.values("sgd_steps")
    if one.is_healthy or not one.descends_gradients or not is_complete(one.trial.status):
        return None
    if not minibatches.size or minibatches[-1] >= FEW_MINIBATCHES or _learning_has_not_started(one):
        return None
    size = "minibatch_size" if "minibatch_size" in one.config else "train_batch_size"
    more = [Remedy(size, "a smaller {}"), MORE_EPOCHS, Remedy("training_intensity", "a higher {}")]
    advice = advised(one.config, *more, "a longer run")
    return Finding("few updates", f"{minibatches[-1]:,.0f} minibatches in total", "the network hardly changes", advice)


def _learning_rate_is_zero(one: Evidence) -> Finding | None:
    rates = one.values("learner/lr")
    if not rates.size or rates.max() > 1e-7:
        return None
    advice = advised(one.config, Remedy("lr", "{} above 0, such as its default"))
    return Finding(
        "zero learning rate", f"lr {number_text(float(rates.max()))}", "the parameters do not change", advice
    )


def _no_gradient(one: Evidence) -> Finding | None:
    norms = one.values(*GRADIENT_NORMS)
    if not norms.size or norms.max() > 1e-8:
        return None
    reason = "all actions have the same value: rewards do not differ, or the loss does not reach the network"
    return Finding("no gradient", "the gradient's norm is 0", reason, "`rlrun env check`, to check the env's rewards")


def _returns_are_equal(one: Evidence) -> Finding | None:
    least, most = one.values("episode_return_min"), one.values("episode_return_max")
    if not least.size or one.has_learned or one.end("episodes") < 10 or least.min() != most.max():
        return None
    advice = advised(
        one.config,
        *(Remedy(name, "a higher {}") for name in ("entropy_coeff", "epsilon", "exploration_noise", "sigma")),
        "demonstrations (r2d3)",
        "reward shaping",
    )
    found = f"every episode returned {number_text(float(most.max()))}"
    reason = "no action has made a difference yet, so the policy has nothing to learn from"
    return Finding("all returns equal", found, reason, advice)


def _workers_restarted(one: Evidence) -> Finding | None:
    restarts = one.values("worker_restarts")
    if not restarts.size or restarts.max() < 1:
        return None
    reason = "their envs started new episodes each time"
    return Finding(
        "workers restarted", f"{restarts.max():,.0f} restarts", reason, "looking for the cause in the run's log"
    )


HIGH_RATE, VERY_HIGH_RATE = 0.01, 0.03
"""Learning rates from which on Adam, which moves each weight by about this much per update, is unstable: in a run that
has not learned, and in any run."""
LOW_RATE = 1e-4
"""Learning rate above which little movement is due to few updates rather than to the rate."""
LITTLE_MOVEMENT = 0.1
"""Sum of the learning rate over all updates, the distance that Adam moves a weight at most, below which a network has
hardly changed; weights are initialized at about 0.1."""
WORTHLESS = 0.01
"""Discount below which a reward counts for nothing."""
UNIFORM = 0.9
"""Fraction of the initial entropy above which a policy has hardly changed."""
LARGE_BONUS = 0.05
"""Entropy coefficient above which the bonus may outweigh standardized advantages; usual ones are 0 to 0.02."""
SMALL_REWARDS = 0.2
"""Usual upper bound of the entropy bonus per step, as a fraction of the absolute return per step."""


def _learning_rate_too_high(one: Evidence) -> Finding | None:
    if not one.descends_gradients:
        return None
    bound = VERY_HIGH_RATE if one.is_healthy else HIGH_RATE
    for setting in RATES:
        rates = one.values(f"learner/{setting}")
        if rates.size and rates.max() >= bound:
            found = f"{setting} up to {number_text(float(rates.max()))}; usual values are 0.0001 to 0.003"
            reason = "each update moves the weights so far that what was learned before is lost"
            advice = advised(one.config, Remedy(setting, "{}: 0.001 or less"))
            return Finding("learning rate too high", found, reason, advice)
    return None


def _learning_rate_too_low(one: Evidence) -> Finding | None:
    if one.is_healthy or not one.descends_gradients or one.most("sgd_steps") < FEW_MINIBATCHES:
        return None
    for setting in RATES:
        rates = one.values(f"learner/{setting}")
        moved = float(rates.mean()) * one.most("sgd_steps") if rates.size else math.inf
        if 1e-7 < rates.max(initial=0.0) < LOW_RATE and moved < LITTLE_MOVEMENT:
            found = f"{setting} {number_text(float(rates.max()))} in {one.most('sgd_steps'):,.0f} updates"
            reason = f"all updates together can move a weight by about {number_text(moved)}: the network hardly changes"
            advice = advised(one.config, Remedy(setting, "{}: 0.0003 to 0.003"), MORE_EPOCHS)
            return Finding("learning rate too low", found, reason, advice)
    return None


def _short_horizon(one: Evidence) -> Finding | None:
    gamma = one.config.get("gamma")
    if one.is_healthy or one.probe is None or not isinstance(gamma, int | float) or not 0 < gamma < 1:
        return None
    gap = one.probe.reward_gap
    if not one.probe.sees_rewards:
        gap = max(gap, one.most("episode_len_mean"))
    if gamma**gap >= WORTHLESS:
        return None
    found = f"gamma {gamma:g}, but rewards are about {gap:,.0f} steps apart: {gamma:g}^{gap:.0f} is {gamma**gap:.1g}"
    reason = f"rewards count for about {1 / (1 - gamma):,.0f} steps, so actions long before them are worth nothing"
    least = 1 - 1 / max(gap, 2)
    advice = advised(one.config, Remedy("gamma", f"{{}}: {least:.3g} or more"), "rewards closer to their causes")
    return Finding("short horizon", found, reason, advice)


def _small_replay(one: Evidence) -> Finding | None:
    replay, length = one.config.get("replay"), one.most("episode_len_mean")
    capacity = replay.get("capacity") if isinstance(replay, Mapping) else None
    if not isinstance(capacity, int) or not length > capacity:
        return None
    found = f"replay.capacity {capacity:,}; episodes have up to {length:,.0f} steps on average"
    reason = "the buffer never holds a whole episode, so minibatches show only what the policy did last"
    return Finding("small replay", found, reason, f"config.replay.capacity: 100_000, at least {20 * length:,.0f}")


def large_entropy_bonus(one: Evidence) -> Finding | None:
    """Finding that a large entropy weight keeps a policy almost uniform."""
    begin, end = one.begin(*ENTROPIES), one.end(*ENTROPIES)
    if one.is_healthy or len(one.values(*ENTROPIES)) < 2 or not end > UNIFORM * begin > 0:
        return None
    weight, per_step = one.config.get("entropy_coeff"), one.reward_per_step
    temperature = one.end(TEMPERATURE)
    if isinstance(weight, int | float) and weight >= LARGE_BONUS:
        found, setting, below = f"entropy_coeff {weight:g}; usual values are 0 to 0.02", "entropy_coeff", 0.01
    elif temperature * end > SMALL_REWARDS * per_step > 0:
        found = f"temperature {number_text(temperature)}, with rewards of about {number_text(per_step)} per step"
        setting, below = "target_entropy", -1
    else:
        return None
    found += f"; entropy {number_text(end)} nats, {number_text(begin)} at the start"
    reason = "the policy earns more by random actions than by good ones"
    advice = advised(one.config, Remedy(setting, f"{{}}: {below:g}"), Remedy("alpha", "a smaller {}"), "larger rewards")
    return Finding("large entropy bonus", found, reason, advice)


CERTAIN_CAUSES: tuple[Callable[[Evidence], Finding | None], ...] = (
    _learns_nothing,
    _no_episode_ended,
    _learning_has_not_started,
    _learning_rate_is_zero,
    _workers_restarted,
)
"""Checks for causes that explain a failure by themselves."""

LIKELY_CAUSES: tuple[Callable[[Evidence], Finding | None], ...] = (
    _learning_rate_too_high,
    _learning_rate_too_low,
    _small_replay,
    large_entropy_bonus,
    _short_horizon,
    _few_updates,
    _no_gradient,
    _returns_are_equal,
)
"""Checks for causes that depend on the env or on other settings, the most likely first."""
