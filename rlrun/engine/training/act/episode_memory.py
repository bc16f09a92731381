"""Actions in episodes whose memory the caller keeps between steps (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlrun.engine.policy.behavior import BehaviorPolicy


def actions_from(
    behavior: BehaviorPolicy,
    memory: Mapping[str, Any] | None,
    observations: Any,
    draws: np.random.Generator | None,
    prev_reward: float = 0.0,
    executed: Any = None,
) -> tuple[Any, Mapping[str, Any]]:
    """Returns the env action [1, ...] for an observation of one episode, and the policy's memory after it.

    Args:
        behavior: The behavior policy.
        memory: The memory after the episode's last observation; None at its start.
        observations: The raw observation, a tree of [1, ...].
        draws: Random generator of sampled actions; None for the likeliest.
        prev_reward: Reward of the last action.
        executed: The last action of the env [1, ...], if it was another than the returned one.
    """
    resume_episode(behavior, memory, prev_reward, executed)
    actions = behavior.actions(observations, draws)
    return actions, behavior.memory()


def resume_episode(
    behavior: BehaviorPolicy, memory: Mapping[str, Any] | None, prev_reward: float = 0.0, executed: Any = None
) -> None:
    """Prepares a behavior policy for the next observation of one episode; see `actions_from`."""
    if memory is not None:
        behavior.load_memory(memory)
        if executed is not None:
            behavior.take_actions(executed)
    behavior.take_rewards(np.array([prev_reward], np.float64))
    behavior.begin_episodes(np.array([memory is None]))
