"""Episodes of a small Markov decision process whose values are known exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.finite_mdp import FiniteMDP
from rlrun.engine.functional.returns import Doubles
from rlrun.exact.off_policy_evaluation.estimators import WeighedEpisodes, with_closing_values
from rlrun.exact.off_policy_evaluation.recorded_episodes import RecordedEpisodes

GAMMA = 0.9
STEPS = 6
"""Steps after which an episode is truncated."""

JUDGED = np.array([[0.7, 0.3], [0.4, 0.6], [0.5, 0.5]])
BEHAVIOR = np.array([[0.5, 0.5], [0.5, 0.5], [0.6, 0.4]])


def small_mdp() -> FiniteMDP:
    """Three states, two actions, random transitions, and episodes that terminate or reach the time limit."""
    transitions = np.random.default_rng(3).dirichlet(np.ones(3), size=(3, 2)) * 0.85
    rewards = np.array([[1.0, -0.5], [0.0, 2.0], [-1.0, 0.5]])
    return FiniteMDP(transitions, rewards, np.array([0.6, 0.4, 0.0]))


@dataclass(frozen=True)
class Sampled:
    """Episodes [T, E] of a policy, with their states [T + 1, E]."""

    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: Doubles
    lengths: NDArray[np.int64]
    terminated: NDArray[np.bool_]

    @property
    def valid(self) -> NDArray[np.bool_]:
        return np.arange(STEPS)[:, None] < self.lengths

    def weighed(self, mdp: FiniteMDP, judged: Doubles = JUDGED, behavior: Doubles = BEHAVIOR) -> WeighedEpisodes:
        """Rewards with the exact values of truncated ends, and log-ratios."""
        ratios = np.log(judged / behavior)[self.states[:-1], self.actions]
        values = (judged * mdp.q_of(judged, GAMMA)).sum(-1)
        closing = np.where(self.terminated, 0.0, values[self.states[self.lengths, np.arange(len(self.lengths))]])
        rewards = with_closing_values(self.rewards, self.lengths, closing, GAMMA)
        return WeighedEpisodes(rewards, np.where(self.valid, ratios, 0.0), GAMMA)


def sampled(mdp: FiniteMDP, policy: Doubles, episodes: int, draws: np.random.Generator) -> Sampled:
    """Samples episodes; the states after an episode's end have no meaning."""
    states = np.zeros((STEPS + 1, episodes), np.int64)
    actions = np.zeros((STEPS, episodes), np.int64)
    rewards = np.zeros((STEPS, episodes))
    runs, lengths = np.ones(episodes, np.bool_), np.zeros(episodes, np.int64)
    states[0] = _drawn(np.broadcast_to(mdp.starts, (episodes, len(mdp.starts))), draws)
    following = np.concatenate([mdp.transitions, 1 - mdp.transitions.sum(-1, keepdims=True)], -1)
    for t in range(STEPS):
        actions[t] = _drawn(policy[states[t]], draws)
        rewards[t] = np.where(runs, mdp.rewards[states[t], actions[t]], 0.0)
        lengths += runs
        after = _drawn(following[states[t], actions[t]], draws)
        runs &= after < len(mdp.starts)
        states[t + 1] = np.where(after < len(mdp.starts), after, 0)
    return Sampled(states, actions, rewards, lengths, ~runs)


def _drawn(probabilities: Doubles, draws: np.random.Generator) -> NDArray[np.int64]:
    found = (probabilities.cumsum(-1) <= draws.random((len(probabilities), 1))).sum(-1)
    return found.clip(max=probabilities.shape[-1] - 1)


def recorded(episodes: Sampled, log_probs: bool = False) -> RecordedEpisodes:
    """The sampled episodes as rows, with or without the behavior's log-probabilities."""
    times = np.arange(STEPS + 1)[:, None]
    has_row = times <= episodes.lengths

    def rows(column: NDArray[Any]) -> NDArray[Any]:
        padded = np.concatenate([column, np.zeros_like(column[:1])]) if len(column) == STEPS else column
        return padded.T[has_row.T]

    is_last = times[:-1] == episodes.lengths - 1
    states, actions = rows(episodes.states), rows(episodes.actions)
    return RecordedEpisodes(
        lambda chosen: states[chosen],
        actions,
        rows(episodes.rewards),
        rows(is_last & episodes.terminated),
        rows(episodes.valid),
        np.log(BEHAVIOR)[states, actions] if log_probs else None,
    )
