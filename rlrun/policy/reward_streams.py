"""Streams of rewards: the env's own, and those of curiosity and of costs, each with a value head of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlrun.policy.constraint_config import ConstraintConfig
    from rlrun.policy.curiosity_config import CuriosityConfig

INTRINSIC = "intrinsic"
"""Name of the stream of curiosity's rewards."""

COST = "cost"
"""Name of the stream of costs that are bounded."""

INTRINSIC_REWARDS = "intrinsic_rewards"
"""Column of intrinsic rewards, [T, B]."""

CURIOSITY_OBS, CURIOSITY_NEXT_OBS = "curiosity_obs", "curiosity_next_obs"
"""Columns of the observation before and after a step as curiosity's networks see it, trees of [T, B, ...]."""


@dataclass(frozen=True)
class RewardStream:
    """A reward of each step, whose returns have a value head of their own.

    Attributes:
        name: Its name, "" of the env's own rewards.
        rewards: Column of its rewards, [T, B].
        gamma: Discount.
        gae_lambda: Weight between one-step (0) and Monte Carlo (1) advantages.
        is_episodic: Whether its returns end with an episode, or continue in the next one of the env slot.
        weight: Weight of its advantages in the sum that the policy climbs; None: they are not in that sum.
    """

    name: str
    rewards: str
    gamma: float
    gae_lambda: float
    is_episodic: bool = True
    weight: float | None = 1.0

    def column(self, what: str) -> str:
        """Returns the name of a column of this stream: `values`, `advantages` or `value_targets`."""
        return f"{self.name}_{what}" if self.name else what


@dataclass(frozen=True)
class RewardStreams:
    """The streams of rewards that an algorithm learns from, besides the env's own.

    Attributes:
        curiosity: Settings of intrinsic rewards; None for none.
        constraint: Settings of the costs that are bounded; None for none.
    """

    curiosity: CuriosityConfig | None = None
    constraint: ConstraintConfig | None = None

    @property
    def further(self) -> tuple[RewardStream, ...]:
        """The streams besides the env's own."""
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

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the streams besides the env's own, in the order of their value heads."""
        return tuple(stream.name for stream in self.further)

    def all(self, gamma: float, gae_lambda: float) -> tuple[RewardStream, ...]:
        """Returns all streams, the env's own first.

        Args:
            gamma: Discount of the env's own rewards.
            gae_lambda: Weight between one-step (0) and Monte Carlo (1) advantages of the env's own rewards.
        """
        weight = 1.0 if self.curiosity is None else self.curiosity.extrinsic_coeff
        return (RewardStream("", "rewards", gamma, gae_lambda, weight=weight), *self.further)


ENV_ALONE = RewardStreams()
"""No rewards but the env's own."""


def weighted_advantages(streams: Sequence[RewardStream], columns: Mapping[str, Any]) -> Any:
    """Returns the weighted sum of advantages that the policy climbs, as an array or tensor like its parts.

    Args:
        streams: The streams of rewards, the env's own first.
        columns: Advantages by the name of their column.
    """
    climbed = [stream for stream in streams if stream.weight is not None]
    if len(climbed) == 1:
        return columns[climbed[0].column("advantages")]
    first, *others = (stream.weight * columns[stream.column("advantages")] for stream in climbed)
    return sum(others, first)
