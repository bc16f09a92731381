"""Policies made from a test's settings."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from gymnasium import Space

from rlrun.algorithms.dqn.q_settings import QSettings
from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.policy.policy import Policy
from rlrun.engine.policy.weights import Weights

P = TypeVar("P", bound=Policy)


@dataclass(frozen=True)
class Settings:
    """Settings that every policy family reads, and those of a Q policy."""

    model: ModelConfig
    normalize_observations: bool = False
    value_heads: tuple[str, ...] = ()
    q: QSettings = field(default_factory=QSettings)


def plain_policy(
    family: Callable[..., P],
    observation: Space[Any],
    action: Space[Any],
    model: ModelConfig,
    *,
    seed: int = 0,
    normalize_observations: bool = False,
    value_heads: tuple[str, ...] = (),
    **q: Any,
) -> P:
    """Returns a policy of a family that only reads `Settings`; further arguments are passed to `QSettings`."""
    return family(
        Spaces(observation, action), Settings(model, normalize_observations, value_heads, QSettings(**q)), seed
    )


def policy_from(
    family: Callable[..., P],
    config: type[AlgorithmConfig],
    observation: Space[Any],
    action: Space[Any],
    model: ModelConfig,
    *,
    seed: int = 0,
    **settings: Any,
) -> P:
    """Returns a policy for an algorithm's settings, some of which are given, with any network."""
    return family(Spaces(observation, action), config.parse({}).model_copy(update={"model": model, **settings}), seed)


def loaded(
    policy: Policy,
    flat: np.ndarray | None = None,
    *,
    env_steps: int = 0,
    filters: dict[str, Any] | None = None,
    **schedules: Any,
) -> BehaviorPolicy:
    """Returns a policy's behavior as on a worker: pickled on the way, and with the parameters for acting.

    Args:
        policy: The policy.
        flat: All of its parameters; None for its current ones.
        env_steps: Number of env steps when the parameters were sent.
        filters: Moments of observations.
        **schedules: Values of the exploration's schedules; it is greedy without them.
    """
    behavior: BehaviorPolicy = pickle.loads(pickle.dumps(policy.behavior()))
    start, size = policy.acting_range
    acting = (policy.parameters.gather(policy.module).numpy() if flat is None else flat)[start : start + size]
    greedy = {"epsilon": 0.0, "temperature": 1.0, "exploration_noise": 0.0}
    behavior.load(Weights(0, acting, filters or {}, env_steps, {**greedy, **schedules}))
    return behavior


def samples(space: Space[Any], number: int, seed: int = 0) -> Any:
    """Returns elements of a space, stacked: a tree of arrays [number, ...]."""
    space.seed(seed)
    return map_tree(lambda *leaves: np.stack(leaves), *(space.sample() for _ in range(number)))
