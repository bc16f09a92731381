"""Target policy of an off-policy evaluation: its actions, and log-probabilities of recorded actions (NumPy)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.returns import Doubles
from rlrun.engine.functional.seeding import generator
from rlrun.engine.policy.action_spaces.action_space import Actions, Floats
from rlrun.engine.policy.action_spaces.discrete import DiscreteActions
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.exploration.sampling import SampleInOrder
from rlrun.engine.policy.log_probs_in_env import behavior_log_probs
from rlrun.exact.off_policy_evaluation.recorded_episodes import RecordedEpisodes, Rows, blocks

EPISODES_AT_ONCE = 64
"""Number of recorded episodes that a policy with memory processes in parallel."""

SAMPLES = 4
"""Number of actions that are sampled for each observation where expectations have no closed form."""


@dataclass(frozen=True)
class TargetActions:
    """Actions of the evaluated policy at N recorded observations, and log-probabilities of the recorded actions.

    Attributes:
        log_probs: Log-probability of each recorded action in the env's units, [N]; None for a deterministic continuous
            policy, or if unknown.
        probabilities: Probability of each Discrete action, [N, A]; None for other actions.
        sampled: Actions in the env's units, trees of [N, ...]; empty for Discrete actions.
    """

    log_probs: Doubles | None
    probabilities: Floats | None
    sampled: tuple[Any, ...] = ()


class TargetPolicy:
    """Policy to be evaluated: a behavior policy with sampled or greedy actions.

    Args:
        behavior: The policy, with its weights loaded.
        is_greedy: Whether to evaluate greedy instead of sampled actions.
        seed: Seed of sampled actions.

    Attributes:
        title: Name of the kind of actions: `stochastic`, `greedy` or `deterministic`.
    """

    def __init__(self, behavior: BehaviorPolicy, *, is_greedy: bool, seed: int) -> None:
        self._behavior = behavior
        self._space = behavior.action_space
        self._is_greedy = is_greedy or self._space.is_deterministic
        self._seed = seed
        self.title = "deterministic" if self._space.is_deterministic else "greedy" if self._is_greedy else "stochastic"

    @property
    def has_memory(self) -> bool:
        """Whether actions depend on more than the last observation."""
        return self._behavior.memory.is_used

    def on(self, episodes: RecordedEpisodes) -> TargetActions:
        """Computes the policy's actions at all recorded observations.

        A policy with memory is shown each episode as if it had executed the recorded actions.
        """
        return self._greedy(episodes) if self._is_greedy else self._stochastic(episodes)

    def _greedy(self, episodes: RecordedEpisodes) -> TargetActions:
        chosen = self._chosen(episodes, None)
        log_probs = None
        if issubclass(self._space.action_dtype, np.integer):
            differs = (self._space.from_env(episodes.actions) != chosen).reshape(len(chosen), -1).any(-1)
            log_probs = np.where(differs, -np.inf, 0.0)
        if isinstance(self._space, DiscreteActions):
            return TargetActions(log_probs, np.eye(self._space.num_outputs, dtype=np.float32)[chosen])
        return TargetActions(log_probs, None, (self._space.to_env(chosen),))

    def _stochastic(self, episodes: RecordedEpisodes) -> TargetActions:
        log_probs = self._log_probs(episodes)
        if isinstance(self._space, DiscreteActions) and log_probs is not None:
            return TargetActions(log_probs[:, 0], np.exp(log_probs[:, 1:]).astype(np.float32))
        draws = [self._chosen(episodes, generator(self._seed, "judged actions", i)) for i in range(SAMPLES)]
        if isinstance(self._space, DiscreteActions):
            shares = np.mean([np.eye(self._space.num_outputs, dtype=np.float32)[each] for each in draws], axis=0)
            return TargetActions(None, shares)
        own = None if log_probs is None else log_probs[:, 0]
        return TargetActions(own, None, tuple(self._space.to_env(each) for each in draws))

    def _log_probs(self, episodes: RecordedEpisodes) -> Doubles | None:
        """Log-probabilities in the env's units of the recorded action, and of every Discrete action, [N, 1 + A]."""
        space, behavior = self._space, self._behavior
        if isinstance(behavior.exploration, SampleInOrder):  # outputs depend on actions that the policy samples
            return None
        others = range(space.num_outputs) if isinstance(space, DiscreteActions) else ()
        found = np.zeros((episodes.num_rows, 1 + len(others)))
        for rows, observations, keep in self._steps(episodes):
            outputs, taken = behavior.outputs(observations), space.from_env(episodes.acted(rows))
            behavior.memory.remember(taken, None)
            behavior.take_actions(episodes.acted(rows))
            for column, actions in enumerate([taken, *(np.full_like(taken, own) for own in others)]):
                logs = behavior_log_probs(behavior, outputs, actions)
                if logs is None:
                    return None
                found[rows[keep], column] = logs[keep]
        return found

    def _chosen(self, episodes: RecordedEpisodes, draws: np.random.Generator | None) -> Actions:
        """The policy's own actions, [N, *action_shape]: sampled, or the most likely ones if there is no generator."""
        space = self._space
        found = np.zeros((episodes.num_rows, *space.action_shape), space.action_dtype)
        for rows, observations, keep in self._steps(episodes):
            found[rows[keep]] = self._behavior.chosen(observations, draws)[keep]
            self._behavior.take_actions(episodes.acted(rows))
        return found

    def _steps(self, episodes: RecordedEpisodes) -> Iterator[tuple[Rows, Any, NDArray[np.bool_]]]:
        """Yields rows [B], their observations, and the mask [B] of the slots whose episode has not ended before."""
        behavior = self._behavior
        if not self.has_memory:
            for rows in blocks(np.arange(episodes.num_rows)):
                yield rows, episodes.observations(rows), np.ones(len(rows), np.bool_)
            return
        for start in range(0, episodes.num_episodes, EPISODES_AT_ONCE):
            block = slice(start, start + EPISODES_AT_ONCE)
            first, lengths = episodes.first_rows[block], episodes.lengths[block]
            for t in range(int(lengths.max()) + 1):
                rows = first + np.minimum(t, lengths)
                if t:
                    behavior.take_rewards(episodes.rewards[first + np.minimum(t - 1, lengths - 1)])
                behavior.begin_episodes(np.full(len(rows), t == 0))
                yield rows, episodes.observations(rows), t <= lengths
