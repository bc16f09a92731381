"""Tabular model (finite MDP) of envs that expose their transition probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.single_env import make_single_env
from rlrun.engine.envs.vector_env import close_or_warn
from rlrun.engine.functional.finite_mdp import FiniteMDP
from rlrun.engine.messages.errors import UsageError

MOST_NUMBERS = 20_000_000
"""Limit on the size of the transition tensor, S * A * S entries: 160 MB."""


@runtime_checkable
class ProvidesModel(Protocol):
    """Protocol of an env that exposes its tabular model, such as Gymnasium's FrozenLake-v1 and Taxi-v4.

    Attributes:
        P: Transitions by state and action: tuples of probability, next state, reward and termination flag.
        initial_state_distrib: Probability that each of the S states is the initial one, [S].
    """

    P: Mapping[int, Mapping[int, Sequence[tuple[float, int, float, bool]]]]
    initial_state_distrib: NDArray[np.float64]


def finite_mdp(config: EnvConfig) -> FiniteMDP:
    """Returns the finite MDP of an env whose observation is the state index.

    Raises:
        UsageError: The env has no model, spaces that are not Discrete, settings that may change the model, or
            too many states.
    """
    where = f"env {config.id}: cannot compute exact values"
    changed = [name for name in ("wrappers", "reset_options", "tasks", "curriculum") if getattr(config, name)]
    if changed:
        raise UsageError(f"{where}, because {changed[0]} may change its transition probabilities")
    model, limit = provided_model(config, where)
    states, actions = int(model.observation_space.n), int(model.action_space.n)
    if states**2 * actions > MOST_NUMBERS:
        raise UsageError(
            f"{where}, because its {states:,} states and {actions:,} actions need more than {MOST_NUMBERS:,} numbers"
        )
    return _dense(model, states, actions, limit)


def provided_model(config: EnvConfig, where: str) -> tuple[Any, int | None]:
    """Returns the innermost env, which holds the tabular model, and the time limit in steps (None if there is none).

    Args:
        config: Config of the env.
        where: Beginning of error messages.

    Raises:
        UsageError: The env has no tabular model, or its spaces are not Discrete.
    """
    env = make_single_env(config)
    try:
        model, limit = env.unwrapped, env.spec.max_episode_steps if env.spec is not None else None
    finally:
        close_or_warn(env.close, config.id, "before any episode")
    states, actions = model.observation_space, model.action_space
    if not (isinstance(states, Discrete) and isinstance(actions, Discrete)):
        raise UsageError(
            f"{where}, which need Discrete observation and action spaces, but this env has {states} and {actions}"
        )
    if not isinstance(model, ProvidesModel):
        raise UsageError(
            f"{where}, because the env does not define its model: `P[state][action]`, a list of (probability, "
            "next state, reward, terminated), and `initial_state_distrib`"
        )
    return model, config.max_episode_steps or limit


def _dense(model: ProvidesModel, states: int, actions: int, time_limit: int | None) -> FiniteMDP:
    transitions, rewards = np.zeros((states, actions, states)), np.zeros((states, actions))
    for state in range(states):
        for action in range(actions):
            for probability, following, reward, terminated in model.P[state][action]:
                rewards[state, action] += probability * reward
                if not terminated:
                    transitions[state, action, following] += probability
    return FiniteMDP(transitions, rewards, np.asarray(model.initial_state_distrib, np.float64), time_limit)
