"""Evidence for a diagnosis: metrics and settings of a trial, which the checks take as input."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.datasets.data_set import DataSet
from rlrun.engine.datasets.input_config import InputConfig
from rlrun.engine.datasets.input_sets import opened
from rlrun.engine.datasets.transitions import returns_to_go, rewards_at
from rlrun.engine.envs.probes.probe import Probe
from rlrun.engine.functional.reward_scale import RewardScale
from rlrun.engine.messages.errors import RlrunError
from rlrun.engine.rollout.evaluation import EvaluationResult
from rlrun.engine.settings.metric import of_policy
from rlrun.experiments.runs.trial_result import TrialResult
from rlrun.experiments.trial.results import RETURN


@dataclass(frozen=True)
class DataReturns:
    """Statistics of the discounted returns-to-go in recorded data.

    Attributes:
        mean: Mean of the returns.
        largest: Largest return.
    """

    mean: float
    largest: float


def data_returns(config: Mapping[str, Any]) -> DataReturns | None:
    """Return statistics of the data sets in an algorithm's settings; None if there is no readable data."""
    scale = RewardScale(config.get("reward_scale", 1.0), config.get("clip_rewards"))
    parts = [InputConfig.parse(part) for part in config.get("input") or ()]
    try:
        found = [continued_returns(opened(part), float(config["gamma"]), scale) for part in parts]
    except (RlrunError, KeyError):
        return None
    returns = np.concatenate(found) if found else np.empty(0)
    return DataReturns(float(returns.mean()), float(returns.max())) if returns.size else None


def continued_returns(data: DataSet, gamma: float, scale: RewardScale) -> NDArray[np.float64]:
    """Discounted return of each step, [N], as if truncated episodes continued forever with their mean reward.

    Args:
        data: The data set.
        gamma: Discount factor; with 1, truncated episodes are not continued.
        scale: Scale and clipping bound of each reward.
    """
    returns = returns_to_go(data, gamma, scale)
    starts, lengths = data.episodes
    starts, lengths = starts[lengths > 0], lengths[lengths > 0]
    rows = np.arange(lengths.sum()) + np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    if gamma < 1:
        goes_on = ~data.rows(starts + lengths - 1, ("terminateds",))["terminateds"]
        sums = np.add.reduceat(rewards_at(data, rows, scale), np.cumsum(lengths) - lengths)
        steps_left = np.repeat(starts + lengths, lengths) - rows
        returns[rows] += gamma**steps_left * np.repeat(goes_on * sums / lengths, lengths) / (1 - gamma)
    own: NDArray[np.float64] = returns[rows]
    return own


Floats = NDArray[np.float64]

ENTROPIES = ("learner/entropy", "learner/actor/entropy")
VALUE_MEANS = ("learner/q_mean", "learner/critics/q_mean", "learner/value_mean", "learner/actor/value_mean")
TEMPERATURE = "learner/alpha/alpha"
POLICY_VALUES = ("learner/actor/q_mean", "learner/critics/q_mean", "learner/q_mean")
"""Metrics of the mean action value, in order of preference: of the policy's own actions, else of recorded ones."""
OUTSIDE = ("learner/actor/outside",)
CLIPPED_WEIGHTS = ("learner/actor/clipped", "clipped")
EFFECTIVE_PARTS = ("learner/actor/effective", "effective")
RETURNS = (RETURN, f"evaluation/{RETURN}")
"""Metrics of the mean return, in order of preference: in training, else in evaluations."""
ERRORS_BEYOND_HUBER = ("learner/huber_excess", "learner/critics/huber_excess")
RATES = ("lr", "critic_lr")
"""Settings whose current value is the metric `learner/<name>`."""
GRADIENT_NORMS = ("learner/grad_norm", "learner/critics/grad_norm", "learner/actor/grad_norm")
METRICS = (
    *("env_steps", "agent_steps", "sgd_steps", "episodes"),
    *(RETURN, "episode_return_min", "episode_return_max", "episode_len_mean"),
    *("policy_lag_mean", "worker_restarts", "learner/kl", "learner/clip_fraction", "learner/explained_variance"),
    *(
        "learner/epsilon",
        TEMPERATURE,
        *(f"learner/{rate}" for rate in RATES),
        *ENTROPIES,
        *VALUE_MEANS,
        *GRADIENT_NORMS,
    ),
    *dict.fromkeys(
        (*RETURNS[1:], *POLICY_VALUES[:1], *ERRORS_BEYOND_HUBER, *OUTSIDE, *CLIPPED_WEIGHTS, *EFFECTIVE_PARTS)
    ),
)
"""Names of the metrics that a diagnosis reads."""

OF_THE_WORLD = ("env_steps", "worker_restarts")
"""Metrics in `METRICS` that a multi-agent world reports once, not for each policy."""

NEARLY = 0.99
"""Fraction of the distance from a random policy's mean return to its best episode; only a policy that has learned
covers that much on average."""
LOST = 0.5
"""Fraction of the gain over a random policy that a run may lose again before it counts as regressed."""


@dataclass(frozen=True)
class Evidence:
    """Evidence for a diagnosis: metrics and settings of one policy in one trial.

    Attributes:
        trial: Results of the trial, with the columns `METRICS`.
        config: The policy's settings.
        random: Evaluation of a random policy in the trial's env; None if there is none.
        policy: Name of the policy in a multi-agent world; "" in a single-agent env.
        algorithm: The policy's algorithm.
        recorded: Returns of the data that the policy learns from; None if there is no data, or it may not be read.
        probe: Result of probing the trial's env; None if it was not probed, as in a multi-agent world.
    """

    trial: TrialResult
    config: Mapping[str, Any]
    random: EvaluationResult | None
    policy: str = ""
    algorithm: str = ""
    recorded: DataReturns | None = None
    probe: Probe | None = None

    def values(self, *names: str) -> Floats:
        """Finite values, in row order, of the first of the given metrics that the trial reports."""
        for name in names:
            found = self.trial.columns.values.get(column_of(name, self.policy), np.empty(0))
            if (there := found[np.isfinite(found)]).size:
                return there
        return np.empty(0)

    def begin(self, *names: str) -> float:
        """Mean of a metric over the first tenth of the rows; NaN if there are no values."""
        values = self.values(*names)
        return float(values[: max(1, len(values) // 10)].mean()) if values.size else math.nan

    def end(self, *names: str) -> float:
        """Mean of a metric over the last tenth of the rows; NaN if there are no values."""
        values = self.values(*names)
        return float(values[-max(1, len(values) // 10) :].mean()) if values.size else math.nan

    def usual(self, *names: str) -> float:
        """Median of a metric over the second half of the rows; NaN if there are no values."""
        values = self.values(*names)
        return float(np.median(values[len(values) // 2 :])) if values.size else math.nan

    def most(self, *names: str) -> float:
        """Largest value of a metric; NaN if there are no values."""
        values = self.values(*names)
        return float(values.max()) if values.size else math.nan

    @property
    def reward_per_step(self) -> float:
        """Mean absolute return at the end, divided by the length of episodes; NaN without finished episodes."""
        return abs(self.end(*RETURNS)) / max(self.end("episode_len_mean"), 1.0)

    @property
    def is_recurrent(self) -> bool:
        """Whether the policy remembers earlier steps."""
        model = self.config.get("model")
        return isinstance(model, Mapping) and model.get("core") is not None

    @property
    def best(self) -> float:
        """Maximum of the return's moving average over a tenth of the rows; NaN if there are no values."""
        values = self.values(*RETURNS)
        window = max(1, len(values) // 10)
        return float(np.convolve(values, np.full(window, 1 / window), "valid").max()) if values.size else math.nan

    @property
    def baseline(self) -> float:
        """Return before learning: a random policy's mean return, or else the mean over the first tenth of the rows."""
        return self.random.mean if self.random is not None else self.begin(*RETURNS)

    @property
    def has_learned(self) -> bool:
        """Whether the best return exceeds the baseline by over a standard deviation of the random policy's returns.

        If no episode of the random policy is that good, for example because a few very low returns raise the deviation,
        a return close to that of the random policy's best episode is enough.
        """
        if self.random is None:
            return self.best > self.baseline
        return self.best > self.baseline + min(self.random.std, NEARLY * (self.random.max - self.baseline))

    @property
    def lost(self) -> float:
        """Fraction of the best gain over the baseline that is lost at the end; 0 if the policy has not learned."""
        return min(1.0, (self.best - self.end(*RETURNS)) / (self.best - self.baseline)) if self.has_learned else 0.0

    @property
    def is_healthy(self) -> bool:
        """Whether the policy has learned and not regressed, so that unusual metrics are harmless."""
        return self.has_learned and self.lost < LOST

    @property
    def is_of_data(self) -> bool:
        """Whether the policy learns only from recorded data."""
        return not self.end("env_steps") > 0 and self.end("sgd_steps") > 0

    @property
    def num_agents(self) -> int:
        """Number of agents that the policy controls.

        Without metrics per agent, this is the mean number of agents that act in a step, rounded up.
        """
        reported = sum(name.startswith("agents/") for name in self.trial.columns.reported)
        acting = self.end("agent_steps") / max(self.end("env_steps"), 1.0)
        return reported or math.ceil(np.nan_to_num(acting))

    @property
    def descends_gradients(self) -> bool:
        """Whether the algorithm learns by gradient descent, and so can clip the gradient's norm."""
        return "max_grad_norm" in self.config


def column_of(metric: str, policy: str) -> str:
    """Name of one policy's metric in a trial's results, such as `policies/left/episode_return_mean`.

    Args:
        metric: Name of the metric without the policy.
        policy: Name of the policy; "" in a single-agent env, where the name of the metric is unchanged.
    """
    return metric if metric in OF_THE_WORLD else of_policy(policy, metric)
