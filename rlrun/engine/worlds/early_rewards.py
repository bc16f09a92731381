"""Rewards for agents that are not alive: kept for an agent born later, dropped for an agent that has ended."""

from __future__ import annotations

MOST_ENDED = 65_536
"""Limit on the number of remembered agents that ended in the current episode; the latest are kept."""


class EarlyRewards:
    """Rewards of one episode for agents that are not yet born.

    Attributes:
        rewards: Sum and number of the rewards so far, by agent.
        ended: Agents that have ended in the episode, in order.
    """

    def __init__(self) -> None:
        self.rewards: dict[str, tuple[float, int]] = {}
        self.ended: dict[str, None] = {}

    def keep_or_drop(self, agent: str, reward: float) -> int:
        """Keeps a reward for an agent that is not yet born; returns 1 for an agent that has ended, else 0."""
        if agent in self.ended:
            return 1
        total, number = self.rewards.get(agent, (0.0, 0))
        self.rewards[agent] = total + float(reward), number + 1
        return 0

    def take(self, agent: str) -> float:
        """Removes and returns the sum of the rewards kept for an agent, which has just been born."""
        return self.rewards.pop(agent, (0.0, 0))[0]

    def drop(self) -> int:
        """Drops all rewards at the episode's end, and returns their number."""
        dropped = sum(number for _, number in self.rewards.values())
        self.rewards = {}
        return dropped

    def forget_oldest(self) -> None:
        """Forgets the agents that ended first, so that at most `MOST_ENDED` are remembered."""
        while len(self.ended) > MOST_ENDED:
            del self.ended[next(iter(self.ended))]
