"""Dynamic programming in finite Markov decision processes with a known model (NumPy)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.returns import Doubles

TOLERANCE = 1e-10
"""Convergence tolerance of value iteration, relative to the largest value."""


@dataclass(frozen=True)
class FiniteMDP:
    """Markov decision process with S states, A actions and a known model.

    Attributes:
        transitions: Transition probabilities, [S, A, S]; 1 minus each row sum is the termination probability.
        rewards: Expected reward of each state-action pair, [S, A].
        starts: Distribution of initial states, [S].
        time_limit: Number of steps after which an episode is truncated; None for no limit.
    """

    transitions: Doubles
    rewards: Doubles
    starts: Doubles
    time_limit: int | None = None

    def backup(self, values: Doubles, gamma: float) -> Doubles:
        """Returns the Bellman backup: action values [S, A], given the values [S] of the next states.

        Source:
            Bellman, "Dynamic Programming", 1957: r(s, a) + gamma sum over s' of p(s' | s, a) v(s').
        """
        return self.rewards + gamma * (self.transitions @ values)

    def optimal_q(self, gamma: float) -> Doubles:
        """Returns the optimal action values Q*, [S, A] for S states and A actions, computed by value iteration.

        With gamma 1, the values are the optimal expected returns within the time limit.

        Raises:
            ValueError: Gamma is 1 and there is no time limit.
        """
        return self._limit(gamma, lambda q: q.max(-1))

    def q_of(self, policy: Doubles, gamma: float) -> Doubles:
        """Returns the action values, [S, A] for S states and A actions, of a policy given as probabilities [S, A].

        With gamma 1, the values are the policy's expected returns within the time limit.

        Raises:
            ValueError: Gamma is 1 and there is no time limit.
        """
        if gamma == 1.0:
            return self._limit(gamma, lambda q: (policy * q).sum(-1))
        follows = np.einsum("sa,sat->st", policy, self.transitions)
        values = np.linalg.solve(np.eye(len(policy)) - gamma * follows, (policy * self.rewards).sum(-1))
        return self.backup(values, gamma)

    def reachable(self) -> NDArray[np.bool_]:
        """Returns a mask [S] of the states that can be reached from the initial states."""
        leads_to: NDArray[np.bool_] = self.transitions.max(axis=1) > 0
        found = self.starts > 0
        while True:
            more = found | leads_to[found].any(0)
            if (more == found).all():
                return found
            found = more

    def at_start(self, values: Doubles) -> float:
        """Returns the expected value at the start of an episode: the mean of state values [S] over initial states."""
        return float(self.starts @ values)

    def _limit(self, gamma: float, value_of: Callable[[Doubles], Doubles]) -> Doubles:
        if gamma == 1.0 and self.time_limit is None:
            raise ValueError("with gamma 1, values are finite only if episodes have a time limit")
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
    """Returns the greedy policy for action values [S, A], as probabilities [S, A]; ties go to the first action."""
    policy = np.zeros(q.shape)
    policy[np.arange(len(q)), q.argmax(-1)] = 1.0
    return policy
