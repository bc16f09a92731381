"""Display names of the algorithms and the env of an entry, which is plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def algorithm_title(entry: Mapping[str, Any]) -> str:
    """Name of an entry's algorithm, or the names of its policies' algorithms; "?" if it has none.

    Examples:
        >>> algorithm_title({"policies": {"a": {"algorithm": "ppo"}, "b": {"algorithm": "dqn"}}})
        'ppo + dqn'
    """
    policies = entry.get("policies")
    if not isinstance(policies, Mapping) or not policies:
        return str(entry.get("algorithm", "?"))
    names = [str(policy.get("algorithm", "?")) for policy in policies.values() if isinstance(policy, Mapping)]
    return " + ".join(dict.fromkeys(names))


def env_title(env: Any) -> str:
    """Id of an env or a world; for several ids, the search space.

    Examples:
        >>> env_title({"pettingzoo": "mpe2.simple_spread_v3"}), env_title("CartPole-v1")
        ('mpe2.simple_spread_v3', 'CartPole-v1')
    """
    if not isinstance(env, Mapping):
        return str(env or "?")
    return str(env.get("id") or env.get("world") or env.get("pettingzoo") or "?")
