"""Display names of the algorithms and the env of a spec entry given as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from rlrun.engine.envs.env_config import EXTERNAL, WITHOUT_ENV

WITHOUT_ENV_TITLE = "data"
"""Display name used in place of an env for runs that learn from data without an env."""


def algorithm_title(entry: Mapping[str, Any]) -> str:
    """Display name of a spec entry's algorithm, or the names of all its policies or stages; "?" if none is named.

    Examples:
        >>> algorithm_title({"policies": {"a": {"algorithm": "ppo"}, "b": {"algorithm": "dqn"}}})
        'ppo + dqn'
        >>> algorithm_title({"stages": {"recorded": {"algorithm": "sac"}, "offline": {"algorithm": "iql"}}})
        'sac, iql'
    """
    stages = entry.get("stages")
    if isinstance(stages, Mapping) and stages:
        entries = [{**entry, "stages": None, **own} for own in stages.values() if isinstance(own, Mapping)]
        return ", ".join(name for name, _ in groupby(map(algorithm_title, entries)))
    policies = entry.get("policies")
    if not isinstance(policies, Mapping) or not policies:
        return str(entry.get("algorithm", "?"))
    names = [str(policy.get("algorithm", "?")) for policy in policies.values() if isinstance(policy, Mapping)]
    return " + ".join(dict.fromkeys(names))


def env_title(env: Any) -> str:
    """Display name of an env or multi-agent world: the id, or the ids in a search space; "data" if there is no env.

    Examples:
        >>> env_title({"pettingzoo": "mpe2.simple_spread_v3"}), env_title("CartPole-v1")
        ('mpe2.simple_spread_v3', 'CartPole-v1')
        >>> env_title({"grid_search": ["CartPole-v1", "Acrobot-v1"]})
        'CartPole-v1, Acrobot-v1'
    """
    if not isinstance(env, Mapping):
        return str(env or "?")
    for kind in ("grid_search", "choice"):
        if isinstance(env.get(kind), list):
            return ", ".join(map(env_title, env[kind]))
    if env.get("id") == WITHOUT_ENV:
        return WITHOUT_ENV_TITLE
    named = next(filter(None, map(env.get, ("id", "tensors", "world", "pettingzoo"))), None)
    return str(named or next((name for name in (EXTERNAL, "openenv") if name in env), "?"))
