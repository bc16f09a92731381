"""Checks of a diagnosis for root causes, such as a zero learning rate; trials with one are not checked for symptoms."""

from __future__ import annotations

from collections.abc import Callable

from rlrun.experiments.runs.trial_status import is_complete
from rlrun.experiments.trial.results import RETURN
from rlrun.report.diagnosis.evidence import GRADIENT_NORMS, Evidence
from rlrun.report.diagnosis.finding import MORE_EPOCHS, Finding, Remedy, advised, number_text

FEW_MINIBATCHES = 200
"""Number of SGD steps below which a network has hardly changed; classic control takes some thousands."""


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
    if one.values(RETURN).size or not one.end("env_steps"):  # some algorithms step no env
        return None
    found = f"no episode ended in {number_text(one.end('env_steps'))} env steps"
    reason = "without finished episodes there are no returns, and algorithms without bootstrapping have no targets"
    return Finding("no episode ends", found, reason, "env.max_episode_steps: 1000")


def _few_updates(one: Evidence) -> Finding | None:
    minibatches = one.values("sgd_steps")
    if one.is_healthy or not one.descends_gradients or not is_complete(one.trial.status):
        return None
    if not minibatches.size or minibatches[-1] >= FEW_MINIBATCHES:
        return None
    steps, starts = one.end("agent_steps", "env_steps"), one.config.get("learning_starts", 0)
    if starts >= steps > 0:
        more = [Remedy("learning_starts", f"{{}} below {steps:,.0f} (it is {starts:,})")]
    else:
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


CAUSES: tuple[Callable[[Evidence], Finding | None], ...] = (
    _learns_nothing,
    _no_episode_ended,
    _few_updates,
    _learning_rate_is_zero,
    _no_gradient,
    _returns_are_equal,
    _workers_restarted,
)
"""All checks for causes, which run before those for symptoms."""
