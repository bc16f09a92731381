"""Policies from the settings that a test is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gymnasium import Space

from rlrun.algorithms.dqn.q_settings import QSettings
from rlrun.engine.algorithm_config import AlgorithmConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.nn.model_config import ModelConfig
from rlrun.engine.policy.policy import Policy

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
    """Returns a policy of a family that reads no more than `Settings`; further arguments are those of `QSettings`."""
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
    """Returns a policy of an algorithm's settings, of which some are given, with any network."""
    return family(Spaces(observation, action), config.parse({}).model_copy(update={"model": model, **settings}), seed)
