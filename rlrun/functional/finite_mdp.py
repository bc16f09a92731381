"""Finite Markov decision processes whose model is known: exact values by dynamic programming (NumPy)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

TOLERANCE = 1e-10
"""How far values are from their limit at most, relative to the largest of them."""


@dataclass(frozen=True)
class FiniteMDP:
    """The model of S states and A actions.

    Attributes:
        transitions: Probability that an action leads on to a state, [S, A, S]; what is lacking to 1 ends the episode.
        rewards: Mean reward of an action, [S, A].
        starts: Probability that an episode begins in a state, [S].
        time_limit: Steps after which an episode is cut off; None for never.
    """

    transitions: Doubles
    rewards: Doubles
    starts: Doubles
    time_limit: int | None = None

    def backup(self, values: Doubles, gamma: float) -> Doubles:
        """Returns what actions are worth, [S, A], where what follows them is worth `values` [S].

        Source:
            Bellman, "Dynamic Programming", 1957: r(s, a) + gamma sum over s' of p(s' | s, a) v(s').
        """
        return self.rewards + gamma * (self.transitions @ values)

    def optimal_q(self, gamma: float) -> Doubles:
        """Returns the action values of the best policy, [S, A], by value iteration.

        With gamma 1 they are what is best within the time limit.

        Raises:
            ValueError: If gamma is 1 and there is no time limit.
        """
        return self._limit(gamma, lambda q: q.max(-1))

    def q_of(self, policy: Doubles, gamma: float) -> Doubles:
        """Returns the action values of a policy with probabilities [S, A], [S, A].

        With gamma 1 they are its returns within the time limit.

        Raises:
            ValueError: If gamma is 1 and there is no time limit.
        """
        if gamma == 1.0:
            return self._limit(gamma, lambda q: (policy * q).sum(-1))
        follows = np.einsum("sa,sat->st", policy, self.transitions)
        values = np.linalg.solve(np.eye(len(policy)) - gamma * follows, (policy * self.rewards).sum(-1))
        return self.backup(values, gamma)

    def reachable(self) -> NDArray[np.bool_]:
        """Returns the states in which an episode can be, [S]; not those that end one."""
        leads_to: NDArray[np.bool_] = self.transitions.max(axis=1) > 0
        found = self.starts > 0
        while True:
            more = found | leads_to[found].any(0)
            if (more == found).all():
                return found
            found = more

    def at_start(self, values: Doubles) -> float:
        """Returns the mean of values [S] where episodes begin."""
        return float(self.starts @ values)

    def _limit(self, gamma: float, value_of: Callable[[Doubles], Doubles]) -> Doubles:
        if gamma == 1.0 and self.time_limit is None:
            raise ValueError("with gamma 1 values are finite only where episodes have a time limit")
        sweeps = self.time_limit if gamma == 1.0 else None
        values = np.zeros(len(self.starts))
        done = 0
        while True:
            q = self.backup(values, gamma)
            latest, before = value_of(q), values
            values, done = latest, done + 1
            if sweeps is not None:
                if done >= sweeps:
                    return q
            elif np.abs(latest - before).max() * gamma <= TOLERANCE * (1 - gamma) * max(np.abs(latest).max(), 1.0):
                return q


def greedy(q: Doubles) -> Doubles:
    """Returns the policy that takes the first of the best actions, as probabilities [S, A]."""
    policy = np.zeros(q.shape)
    policy[np.arange(len(q)), q.argmax(-1)] = 1.0
    return policy
