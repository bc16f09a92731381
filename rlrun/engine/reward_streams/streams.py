"""Reward streams with separate value heads: the env's rewards, intrinsic rewards (curiosity), constrained costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.engine.reward_streams.settings import ConstraintConfig, CuriosityConfig

INTRINSIC = "intrinsic"
"""Name of the intrinsic reward stream of curiosity."""

COST = "cost"
"""Name of the cost stream of a constrained MDP."""

INTRINSIC_REWARDS = "intrinsic_rewards"
"""Column of intrinsic rewards, [T, B]."""

CURIOSITY_OBS, CURIOSITY_NEXT_OBS = "curiosity_obs", "curiosity_next_obs"
"""Columns of the observation before and after a step, as inputs of the novelty networks, trees of [T, B, ...]."""


INTRINSIC_REWARD = Metric("intrinsic_reward_mean", "", "Mean intrinsic reward per step in this iteration")
"""Metric of curiosity's rewards."""

CURIOSITY_METRICS = (
    INTRINSIC_REWARD,
    Metric("learner/intrinsic_value_loss", "", "Mean squared error of intrinsic values", mode="min"),
)
"""Metrics of every kind of curiosity."""

NOVELTY_METRICS = (
    Metric("learner/curiosity/loss", "", "Loss of the curiosity networks", mode="min"),
    Metric("learner/curiosity/grad_norm", "", "Norm of the curiosity networks' gradient before clipping"),
)
"""Metrics of the kinds of curiosity with trained networks."""

MULTIPLIER = Metric("lagrange_multiplier", "", "Weight of cost advantages relative to reward advantages")
"""Metric of a constraint's multiplier."""

CONSTRAINT_METRICS = (
    MULTIPLIER,
    Metric("learner/cost_value_loss", "", "Mean squared error of cost values", mode="min"),
)
"""Metrics of a constraint."""


@dataclass(frozen=True)
class RewardStream:
    """Reward stream, which gives one reward per step and has a separate discount, GAE parameter and value head.

    Attributes:
        name: Name of the stream; "" for the env's rewards.
        rewards: Name of the batch column with the stream's rewards, [T, B].
        gamma: Discount factor of the stream.
        gae_lambda: GAE lambda: 0 for one-step, 1 for Monte Carlo advantages.
        is_episodic: Whether returns end with the episode; otherwise they continue in the env slot's next episode.
        weight: Weight of the stream's advantages in the policy gradient; None leaves them out.
    """

    name: str
    rewards: str
    gamma: float
    gae_lambda: float
    is_episodic: bool = True
    weight: float | None = 1.0

    def column(self, what: str) -> str:
        """Returns the name of the batch column with this stream's `values`, `advantages` or `value_targets`."""
        return f"{self.name}_{what}" if self.name else what


@dataclass(frozen=True)
class RewardStreams:
    """Additional rewards of an algorithm, with separate value heads: intrinsic rewards, and costs of a constraint.

    Attributes:
        curiosity: Settings of intrinsic rewards; None for no intrinsic rewards.
        constraint: Settings of the constrained costs; None for no constraint.
    """

    curiosity: CuriosityConfig | None = None
    constraint: ConstraintConfig | None = None

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Declarations of the metrics that intrinsic rewards and costs add to training results."""
        curiosity: tuple[Metric, ...] = ()
        if self.curiosity is not None:
            curiosity = CURIOSITY_METRICS if self.curiosity.kind == "re3" else CURIOSITY_METRICS + NOVELTY_METRICS
        return curiosity if self.constraint is None else curiosity + CONSTRAINT_METRICS

    @property
    def further(self) -> tuple[RewardStream, ...]:
        """Streams of intrinsic rewards and costs that are in use, without the env's rewards."""
        streams = []
        if (own := self.curiosity) is not None:
            streams.append(
                RewardStream(
                    INTRINSIC,
                    INTRINSIC_REWARDS,
                    own.gamma,
                    own.gae_lambda,
                    is_episodic=False,
                    weight=own.intrinsic_coeff,
                )
            )
        if (bound := self.constraint) is not None:
            streams.append(RewardStream(COST, bound.column, bound.gamma, bound.gae_lambda, weight=None))
        return tuple(streams)

    def all(self, gamma: float, gae_lambda: float) -> tuple[RewardStream, ...]:
        """Returns all reward streams, with the env's (extrinsic) rewards first.

        Args:
            gamma: Discount factor of the extrinsic rewards.
            gae_lambda: GAE lambda of the extrinsic rewards: 0 for one-step, 1 for Monte Carlo advantages.
        """
        weight = 1.0 if self.curiosity is None else self.curiosity.extrinsic_coeff
        return (RewardStream("", "rewards", gamma, gae_lambda, weight=weight), *self.further)


ENV_ALONE = RewardStreams()
"""Reward streams of an algorithm that uses only the env's rewards."""


def weighted_advantages(streams: Sequence[RewardStream], columns: Mapping[str, Any]) -> Any:
    """Returns the weighted sum of the reward streams' advantages, for the policy gradient.

    If only one stream has a weight, the advantages of that stream are returned unscaled.

    Args:
        streams: The reward streams, the extrinsic one first.
        columns: Columns of the batch, which include each stream's advantages.
    """
    climbed = [stream for stream in streams if stream.weight is not None]
    if len(climbed) == 1:
        return columns[climbed[0].column("advantages")]
    first, *others = (stream.weight * columns[stream.column("advantages")] for stream in climbed)
    return sum(others, first)
