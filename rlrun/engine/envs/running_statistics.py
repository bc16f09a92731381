"""Gymnasium wrappers with running statistics over the episodes of an env, which no replay of actions restores."""

from __future__ import annotations

import gymnasium

from rlrun.engine.envs.env_config import EnvConfig

SETTINGS = {"NormalizeObservation": "normalize_observations", "NormalizeReward": "normalize_rewards"}
"""Settings of algorithms that replace the wrappers, by the wrapper's name; their statistics are in checkpoints."""


def statistics_wrappers(config: EnvConfig) -> list[str]:
    """Returns the names of the wrappers in an env's config that keep running statistics."""
    names = [wrapper.id.removeprefix("gymnasium.wrappers:") for wrapper in config.wrappers]
    return [name for name in names if name in SETTINGS]


def keeps_statistics(env: object) -> bool:
    """Whether an env is, or contains, a Gymnasium wrapper that keeps running statistics.

    Args:
        env: The env; the one inside a wrapper is its attribute `env`.
    """
    if not isinstance(env, gymnasium.Env):
        return False
    keepers = tuple(getattr(gymnasium.wrappers, name) for name in SETTINGS)
    return isinstance(env, keepers) or keeps_statistics(vars(env).get("env"))
