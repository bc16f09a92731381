"""Streams of rewards beside the env's own: what their columns are called, and how their returns are estimated."""

from __future__ import annotations

from dataclasses import dataclass

INTRINSIC = "intrinsic"
"""Name of the stream of curiosity's rewards."""

COST = "cost"
"""Name of the stream of costs that are bounded."""

INTRINSIC_REWARDS = "intrinsic_rewards"
"""Column of intrinsic rewards, [T, B]."""

CURIOSITY_OBS, CURIOSITY_NEXT_OBS = "curiosity_obs", "curiosity_next_obs"
"""Columns of the observation before and behind a step as curiosity's networks see it, trees of [T, B, ...]."""


@dataclass(frozen=True)
class RewardStream:
    """A reward of each step, whose returns have a value head of their own.

    Attributes:
        name: Its name, "" of the env's own rewards.
        rewards: Column of its rewards, [T, B].
        gamma: Discount.
        gae_lambda: Weight between one-step (0) and Monte Carlo (1) advantages.
        is_episodic: Whether its returns end with an episode, or go on in the next one of the env slot.
    """

    name: str
    rewards: str
    gamma: float
    gae_lambda: float
    is_episodic: bool = True

    def column(self, what: str) -> str:
        """Returns the name of a column of this stream: `values`, `advantages` or `value_targets`."""
        return f"{self.name}_{what}" if self.name else what
