"""Off-policy evaluation of a policy: all estimators on recorded episodes, with remarks on their assumptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from rlrun.engine.datasets.layout import LOGP
from rlrun.engine.envs.make import check_same_spaces
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.functional.returns import Doubles
from rlrun.engine.functional.seeding import generator
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.exact.off_policy_evaluation.action_value_inputs import DiscreteInputs, SampledInputs, plain_model
from rlrun.exact.off_policy_evaluation.estimated_behavior import EstimatedBehavior
from rlrun.exact.off_policy_evaluation.estimators import (
    ValueEstimate,
    WeighedEpisodes,
    direct_method,
    doubly_robust,
    importance_sampling,
    mean_weight,
    per_decision_importance_sampling,
    with_closing_values,
)
from rlrun.exact.off_policy_evaluation.fitted_q import FitSettings, FittedQ
from rlrun.exact.off_policy_evaluation.recorded_episodes import RecordedEpisodes, Rows
from rlrun.exact.off_policy_evaluation.target_policy import TargetActions, TargetPolicy

if TYPE_CHECKING:
    from rlrun.engine.datasets.data_set import DataSet
    from rlrun.engine.training.training import Training


LEAST_EFFECTIVE_SIZE = 10
"""Effective number of episodes below which estimates with importance weights are refused."""

FOLDS = 2
"""Number of cross-fitting folds: the doubly robust estimate uses a model fitted to the other folds' episodes."""

REPLICATES = 8
"""Number of fits on resampled episodes, for the interval of fitted Q evaluation."""

IS, PER_DECISION, DR = "importance sampling", "per-decision importance sampling", "doubly robust"
DM, FQE = "direct method", "fitted Q evaluation"

LARGEST_WEIGHT_ERROR = 0.1
"""Deviation of the mean importance weight from its expectation 1 above which, if significant, a remark is added."""

LACKS_SUPPORT = (
    "the mean importance weight is not 1: the data lacks episodes like those of the evaluated policy, so "
    "importance sampling is misleading"
)


@dataclass(frozen=True)
class PolicyEstimate:
    """Result of one estimator in an off-policy evaluation of a policy.

    Attributes:
        estimator: Name of the estimator.
        estimate: The value estimate; None if the estimator refuses to give one.
        effective_size: Effective number of episodes, given the importance weights; None for an estimator without
            weights.
        remarks: Assumptions and weaknesses of this estimate.
    """

    estimator: str
    estimate: ValueEstimate | None
    effective_size: float | None
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class PolicyEvaluation:
    """Off-policy evaluation of one policy.

    Attributes:
        policy: Kind of the evaluated actions: `stochastic`, `greedy` or `deterministic`.
        gamma: Discount factor.
        mean_weight: Mean importance weight of whole episodes, 1 in expectation; None without importance weights.
        judgements: Results of the estimators.
        remarks: Remarks that concern all estimators.
    """

    policy: str
    gamma: float
    mean_weight: ValueEstimate | None
    judgements: tuple[PolicyEstimate, ...]
    remarks: tuple[str, ...]

    def judged_by(self, estimator: str) -> PolicyEstimate | None:
        """Result of the estimator with a given name; None if there is none."""
        return next((row for row in self.judgements if row.estimator == estimator), None)


@dataclass(frozen=True)
class FittedValues:
    """Values of the evaluated policy in N recorded rows, computed by fitted Q evaluation.

    Attributes:
        q: Value of each recorded action, [N], from a fit that excludes the action's episode.
        v: Value of each observation, [N], from a fit that excludes the observation's episode; 0 after termination.
        estimate: Mean value of the initial observations, from a fit to all episodes.
    """

    q: Doubles
    v: Doubles
    estimate: ValueEstimate


class OffPolicyEvaluator:
    """Evaluator that estimates values of policies from recorded episodes.

    Args:
        episodes: The recorded episodes; at least two.
        spaces: Observation and action space.
        model: Network settings of a policy; Q functions encode observations in the same way as this policy's network.
        gamma: Discount factor.
        settings: Settings for fitted Q evaluation.
        seed: Seed of the fits.
    """

    def __init__(
        self,
        episodes: RecordedEpisodes,
        spaces: Spaces,
        model: ModelConfig,
        gamma: float,
        *,
        settings: FitSettings,
        seed: int,
    ) -> None:
        self._episodes = episodes
        self._spaces = spaces
        self._model = plain_model(model, settings.hiddens)
        self._gamma = gamma
        self._settings = settings
        self._seed = seed

    def evaluate(self, policy: TargetPolicy) -> PolicyEvaluation:
        """Evaluates a policy with all estimators that support its kind of actions."""
        judged = policy.on(self._episodes)
        fitted = self._fitted_values(judged)
        memory = ("the Q function does not see the policy's memory",) if policy.has_memory else ()
        direct = direct_method(fitted.v[self._episodes.first_rows])
        rows = [
            PolicyEstimate(DM, direct, None, ("interval excludes the error of the fit", *memory)),
            PolicyEstimate(
                FQE, fitted.estimate, None, (f"interval from {REPLICATES} fits to resampled episodes", *memory)
            ),
        ]
        remarks, weight = self._remarks_on_ends(), None
        if judged.log_probs is None:
            reason = "has no closed-form log-probabilities" if policy.title == "stochastic" else "is deterministic"
            remarks = (f"the evaluated policy {reason}, so there are no importance weights", *remarks)
        else:
            weighed = self._weighed(judged.log_probs, fitted)
            weight = mean_weight(weighed)
            rows = [*self._by_weights(weighed, fitted), *rows]
            if _misses_one(weight):
                remarks = (LACKS_SUPPORT, *remarks)
        return PolicyEvaluation(policy.title, self._gamma, weight, tuple(rows), remarks)

    @cached_property
    def _behavior(self) -> tuple[Doubles, tuple[str, ...]]:
        """Log-probabilities of the behavior policy, [N], and the remark if they are estimated."""
        episodes, stored = self._episodes, self._episodes.log_probs
        if stored is not None and np.isfinite(stored[episodes.valid]).all():
            return stored, ()
        estimated = EstimatedBehavior(self._spaces, self._model, episodes, self._seed)
        return estimated.log_probs(), ("behavior policy estimated by cloning",)

    def _fitted_values(self, judged: TargetActions) -> FittedValues:
        """Fits Q functions to all episodes, to the complement of each fold, and to resampled episodes."""
        episodes = self._episodes
        is_discrete = judged.probabilities is not None
        inputs = (DiscreteInputs if is_discrete else SampledInputs)(self._spaces, self._model, episodes, judged)
        draws, number = generator(self._seed, "samples of episodes"), episodes.num_episodes
        folds = draws.permutation(number) % FOLDS
        resampled = draws.multinomial(number, np.full(number, 1 / number), size=REPLICATES).astype(np.float64)
        weights = np.concatenate([np.ones((1, number)), folds != np.arange(FOLDS)[:, None], resampled])
        fitted = FittedQ(inputs, episodes, weights, self._gamma, self._settings, self._seed)
        q, v = fitted.q(), fitted.v()
        initial = v[:, episodes.first_rows]
        replicates = (resampled * initial[1 + FOLDS :]).sum(-1) / number
        own = 1 + folds[episodes.episode_of_row], np.arange(episodes.num_rows)
        # Hao et al., arXiv:2102.03607: the spread of fits to resampled episodes estimates the spread of the fit itself.
        return FittedValues(q[own], v[own], ValueEstimate(float(initial[0].mean()), replicates))

    def _weighed(self, log_probs: Doubles, fitted: FittedValues) -> WeighedEpisodes:
        episodes, (behavior, _) = self._episodes, self._behavior
        ratios = np.where(episodes.valid, log_probs - behavior, 0.0)
        closing = np.zeros(episodes.num_episodes) if self._gamma == 1.0 else fitted.v[episodes.final_rows]
        rewards = episodes.time_major(episodes.rewards)
        bootstrapped = with_closing_values(rewards, episodes.lengths, closing, self._gamma)
        return WeighedEpisodes(bootstrapped, episodes.time_major(ratios), self._gamma)

    def _by_weights(self, weighed: WeighedEpisodes, fitted: FittedValues) -> Iterator[PolicyEstimate]:
        """Estimates with importance weights: weighted ones are refused below the least effective sample size."""
        q, v = self._episodes.time_major(fitted.q), self._episodes.time_major(fitted.v)
        _, remarks = self._behavior
        for is_weighted in (False, True):
            estimates = {
                IS: importance_sampling(weighed, weighted=is_weighted),
                PER_DECISION: per_decision_importance_sampling(weighed, weighted=is_weighted),
                DR: doubly_robust(weighed, q, v, weighted=is_weighted),
            }
            for name, estimate in estimates.items():
                title = f"weighted {name}" if is_weighted else name
                size = estimate.effective_size
                if size is not None and size < LEAST_EFFECTIVE_SIZE:
                    what = "refused" if is_weighted else "unreliable"
                    reason = f"{what}: effective sample size below {LEAST_EFFECTIVE_SIZE}"
                    yield PolicyEstimate(title, None if is_weighted else estimate, size, (reason, *remarks))
                else:
                    yield PolicyEstimate(title, estimate, size, remarks)

    def _remarks_on_ends(self) -> tuple[str, ...]:
        """Remark on the values with which truncated episodes end."""
        number = int(np.count_nonzero(~self._episodes.terminated))
        if not number:
            return ()
        counted = f"{number:,} of {self._episodes.num_episodes:,} episodes are truncated"
        if self._gamma == 1.0:
            return (f"{counted}; without a discount they are not bootstrapped",)
        return (f"{counted}; they are bootstrapped with the fitted value of the final observation",)


def _misses_one(weight: ValueEstimate) -> bool:
    low, high = weight.ci95
    return abs(weight.value - 1) > LARGEST_WEIGHT_ERROR and not low <= 1 <= high


RANKED_BY = (f"weighted {DR}", FQE)
"""Estimators by which policies are ranked: the first one that has an estimate of every policy."""


@dataclass(frozen=True)
class RankedPair:
    """Comparison of two policies by their estimated values on the same episodes.

    Attributes:
        better: Index of the policy with the higher estimate.
        worse: Index of the other policy.
        difference: Difference between their estimates.
        ci95: 95% confidence interval of the difference, paired by episodes.
    """

    better: int
    worse: int
    difference: float
    ci95: tuple[float, float]

    @property
    def is_resolved(self) -> bool:
        """Whether the difference's confidence interval excludes 0, so that the data distinguish the two policies."""
        return self.ci95[0] > 0


@dataclass(frozen=True)
class Ranking:
    """Policies in the order of their estimates.

    Attributes:
        estimator: Name of the estimator.
        order: Indices of the policies, the best one first.
        pairs: Comparisons of all pairs of policies, first the pairs that include the best policy.
    """

    estimator: str
    order: tuple[int, ...]
    pairs: tuple[RankedPair, ...]

    @property
    def num_resolved(self) -> int:
        """Number of pairs of policies that the data can distinguish."""
        return sum(pair.is_resolved for pair in self.pairs)


def ranked(evaluations: Sequence[PolicyEvaluation]) -> Ranking:
    """Ranks policies by their estimated values; all evaluations must have used the same episodes, gamma and seed."""
    for estimator in RANKED_BY:
        rows = [evaluation.judged_by(estimator) for evaluation in evaluations]
        estimates = [row.estimate for row in rows if row is not None and row.estimate is not None]
        if len(estimates) == len(evaluations):
            break
    order = sorted(range(len(estimates)), key=lambda index: -estimates[index].value)
    pairs = [_pair(estimates, better, worse) for better, worse in combinations(order, 2)]
    return Ranking(estimator, tuple(order), tuple(pairs))


def _pair(estimates: Sequence[ValueEstimate], better: int, worse: int) -> RankedPair:
    difference = estimates[better].minus(estimates[worse])
    return RankedPair(better, worse, difference.value, difference.ci95)


def recorded_episodes(data_set: DataSet) -> RecordedEpisodes:
    """Loads the episodes of a data set; observations are read from its files when they are needed.

    Raises:
        UsageError: The data set was recorded from several agents, or holds fewer than two episodes.
    """
    if data_set.num_episodes < FOLDS:
        raise UsageError(f"{data_set.folder}: off-policy evaluation needs at least two episodes")
    if len(data_set.agents) > 1:
        names = ", ".join(data_set.agents)
        raise UsageError(
            f"{data_set.folder} contains several agents ({names}); off-policy evaluation supports only one"
        )
    stored = [LOGP] if LOGP in data_set.manifest.columns else []
    numbers = ("rewards", "terminateds", "valid", *stored)
    columns = data_set.rows(np.arange(data_set.num_rows), ("actions", *numbers))

    def observations(rows: Rows) -> object:
        return data_set.rows(rows, ("obs",))["obs"]

    return RecordedEpisodes(
        observations,
        columns["actions"],
        columns["rewards"],
        columns["terminateds"],
        columns["valid"],
        columns[LOGP].astype(np.float64) if stored else None,
    )


def evaluator(training: Training, data_set: DataSet, *, settings: FitSettings, seed: int) -> OffPolicyEvaluator:
    """Creates the evaluator of policies on a data set, with the gamma and network settings of a training run.

    Raises:
        UsageError: The data set was recorded from several agents, or holds fewer than two episodes.
    """
    config = training.description.algorithm.config
    episodes = recorded_episodes(data_set)
    return OffPolicyEvaluator(episodes, _spaces(data_set), config.model, config.gamma, settings=settings, seed=seed)


def target_policy(training: Training, data_set: DataSet, *, is_greedy: bool, seed: int) -> TargetPolicy:
    """Creates the target policy of an off-policy evaluation: the current policy of a training run.

    Raises:
        UsageError: The training run has several agents, or its spaces differ from the data set's.
    """
    env, policy = training.description.env, training.acting.policy()
    if env.has_many_agents:
        raise UsageError(f"env {env.id} is a multi-agent world; off-policy evaluation supports only single-agent envs")
    check_same_spaces(f"data set {data_set.folder}", _spaces(data_set), policy.trainee.spaces)
    return TargetPolicy(policy.behavior(), is_greedy=is_greedy, seed=seed)


def _spaces(data_set: DataSet) -> Spaces:
    return Spaces(data_set.observation_space, data_set.action_space)
