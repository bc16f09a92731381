"""Off-policy estimators of a policy's value, with influence values and effective sample sizes (NumPy).

Arrays are time-major and padded: row t of column e is step t of episode e. After an episode's last step, rewards and
log-ratios are 0, so that the importance weight of the last step persists.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.intervals import t_quantile
from rlrun.engine.functional.returns import Doubles

LARGEST_LOG_WEIGHT = 300.0
"""Clipping bound of the log of an unnormalized importance weight, so that its square is a finite float."""


@dataclass(frozen=True)
class WeighedEpisodes:
    """Rewards and importance ratios of E episodes, time-major.

    Attributes:
        rewards: Rewards, [T, E]; see `with_closing_values` for truncated episodes.
        log_ratios: log pi(a | s) - log b(a | s) of the evaluated policy pi and the behavior policy b, [T, E].
        gamma: Discount factor.
    """

    rewards: Doubles
    log_ratios: Doubles
    gamma: float

    @property
    def discounts(self) -> Doubles:
        """Discount gamma^t of each of the T steps, [T]."""
        return self.gamma ** np.arange(len(self.rewards), dtype=np.float64)

    @property
    def returns(self) -> Doubles:
        """Discounted return of each of the E episodes, [E]."""
        returns: Doubles = self.discounts @ self.rewards
        return returns

    @property
    def log_weights(self) -> Doubles:
        """Log of each step's importance weight: the sum of log-ratios up to and including the step, [T, E]."""
        return np.cumsum(self.log_ratios, axis=0)


@dataclass(frozen=True)
class ValueEstimate:
    """Estimate of a policy's value: its expected discounted return from the start of an episode.

    Attributes:
        value: The estimate.
        deviations: Numbers [R] whose standard deviation is the estimate's standard error: the influence values of R
            episodes divided by sqrt(R), or the estimates on R resampled data sets.
        effective_size: Effective number of episodes; None for an estimate without importance weights.
    """

    value: float
    deviations: Doubles
    effective_size: float | None = None

    @property
    def ci95(self) -> tuple[float, float]:
        """95% confidence interval from Student's t distribution, with R - 1 degrees of freedom for R `deviations`."""
        half = t_quantile(len(self.deviations) - 1) * float(self.deviations.std(ddof=1))
        return self.value - half, self.value + half

    def minus(self, other: ValueEstimate) -> ValueEstimate:
        """Estimated difference from another policy's value, with a paired interval (same episodes or resamples)."""
        return ValueEstimate(self.value - other.value, self.deviations - other.deviations)


def with_closing_values(rewards: Doubles, lengths: NDArray[np.int64], closing_values: Doubles, gamma: float) -> Doubles:
    """Adds the discounted value of each final observation to the reward of the episode's last step.

    Args:
        rewards: Rewards, [T, E].
        lengths: Number of steps of each episode, [E].
        closing_values: Value of each final observation under the evaluated policy, [E]; 0 where the episode terminated.
        gamma: Discount factor.

    Returns:
        The rewards with these values added, [T, E].
    """
    bootstrapped = rewards.copy()
    bootstrapped[lengths - 1, np.arange(len(lengths))] += gamma * closing_values
    return bootstrapped


def importance_sampling(episodes: WeighedEpisodes, *, weighted: bool) -> ValueEstimate:
    """Importance sampling (IS): the mean return, weighted by the probability ratio of the whole episode.

    IS is unbiased. Weighted IS divides by the sum of the weights instead of their number; it is consistent and has less
    variance.

    Source:
        Precup, Sutton and Singh, "Eligibility traces for off-policy policy evaluation", 2000, section 3.
    """
    log_weights = episodes.log_weights[-1]
    weights = _normalized(log_weights) if weighted else _weights(log_weights)
    value, influences = _weighted_mean(weights, episodes.returns, weighted=weighted)
    return _estimate(float(value), influences, effective_size(log_weights))


def mean_weight(episodes: WeighedEpisodes) -> ValueEstimate:
    """Mean importance weight of whole episodes, whose expectation is 1.

    The mean is below 1 if actions that the evaluated policy takes often are rare in the data; no estimator can correct
    for this.
    """
    weights = _weights(episodes.log_weights[-1])
    mean = float(weights.mean())
    return _estimate(mean, weights - mean, None)


def doubly_robust(episodes: WeighedEpisodes, q: Doubles, v: Doubles, *, weighted: bool) -> ValueEstimate:
    """Doubly robust estimate (DR): a model's value, corrected by importance-weighted temporal differences.

    Each episode contributes the sum over t of gamma^t (w[t] (r[t] - q[t]) + w[t - 1] v[t]). The importance weight
    w[t] covers the steps up to t, and w[-1] is 1. DR is unbiased for every model that was fitted on other episodes, and
    exact for an exact model of a deterministic env. Weighted DR divides the weights of each step by their mean.

    Args:
        episodes: The episodes.
        q: The model's action value of each step, [T, E]; 0 after an episode's end.
        v: The model's state value of each step's observation under the evaluated policy, [T, E]; 0 after an episode's
            end.
        weighted: Whether weights are normalized.

    Source:
        Jiang and Li, arXiv:1511.03722, eq. 10, in the form of Thomas and Brunskill, arXiv:1604.00923, section 4.
    """
    log_weights = episodes.log_weights
    before = np.concatenate([np.zeros_like(log_weights[:1]), log_weights[:-1]])
    value, influences = 0.0, np.zeros(log_weights.shape[1])
    for logs, terms in ((log_weights, episodes.rewards - q), (before, v)):
        weights = _normalized(logs) if weighted else _weights(logs)
        means, changes = _weighted_mean(weights, terms, weighted=weighted)
        value += float(episodes.discounts @ means)
        influences += episodes.discounts @ changes
    return _estimate(value, influences, _effective_size_of_steps(episodes))


def per_decision_importance_sampling(episodes: WeighedEpisodes, *, weighted: bool) -> ValueEstimate:
    """Per-decision importance sampling: each reward is weighted by the probability ratio of all actions up to its step.

    It is the doubly robust estimate with a model of zeros.

    Source:
        Precup, Sutton and Singh, "Eligibility traces for off-policy policy evaluation", 2000, section 4.
    """
    nothing = np.zeros_like(episodes.rewards)
    return doubly_robust(episodes, nothing, nothing, weighted=weighted)


def direct_method(initial_values: Doubles) -> ValueEstimate:
    """Direct method (DM): mean of a model's state values [E] at the initial observations of E episodes.

    The confidence interval reflects the variation of initial states, but not the model's error.

    Source:
        Jiang and Li, arXiv:1511.03722, section 2.3.
    """
    value = float(initial_values.mean())
    return _estimate(value, initial_values - value, None)


def effective_size(log_weights: Doubles) -> float:
    """Effective sample size of E importance weights w, [E]: (sum of w)^2 / (sum of w^2).

    Source:
        Kish, "Survey Sampling", 1965, section 11.7.
    """
    return float(_effective_sizes(log_weights))


def _estimate(value: float, influences: Doubles, size: float | None) -> ValueEstimate:
    """Estimate from the influence of each episode, [E]: the change that it causes, times the number of episodes."""
    return ValueEstimate(value, influences / math.sqrt(len(influences)), size)


def _effective_size_of_steps(episodes: WeighedEpisodes) -> float:
    """Harmonic mean of the steps' effective sample sizes, each at least 1, weighted by the squared discounts.

    This is the effective size of a sum of discounted means whose variances are inversely proportional to the steps'
    sizes.
    """
    sizes, shares = _effective_sizes(episodes.log_weights).clip(min=1.0), episodes.discounts**2
    return float(shares.sum() / (shares / sizes).sum())


def _effective_sizes(log_weights: Doubles) -> Doubles:
    weights = _normalized(log_weights)
    squares = np.square(weights).sum(-1)
    sizes: Doubles = np.divide(np.square(weights.sum(-1)), squares, out=np.zeros_like(squares), where=squares > 0)
    return sizes


def _weights(log_weights: Doubles) -> Doubles:
    return np.exp(np.minimum(log_weights, LARGEST_LOG_WEIGHT))


def _normalized(log_weights: Doubles) -> Doubles:
    """Importance weights divided by their mean over the last axis; zeros if all weights are 0."""
    largest = log_weights.max(-1, keepdims=True)
    weights = np.exp(log_weights - np.where(np.isfinite(largest), largest, 0.0))
    means = weights.mean(-1, keepdims=True)
    normalized: Doubles = np.divide(weights, means, out=np.zeros_like(weights), where=means > 0)
    return normalized


def _weighted_mean(weights: Doubles, terms: Doubles, *, weighted: bool) -> tuple[Doubles, Doubles]:
    """Mean of weighted terms over the last axis, and the influence of each episode on it.

    The influence on a ratio of means is taken from its linearization, w (x - mean) for weights of mean 1.
    """
    products = weights * terms
    means = products.mean(-1)
    expected = means[..., None]
    return means, weights * (terms - expected) if weighted else products - expected
