"""Settings for external envs: clients of a server step them, and may choose actions themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlrun.engine.envs.env_config import EnvConfig, LoggedActions
from rlrun.engine.messages.errors import UsageError

if TYPE_CHECKING:
    from rlrun.engine.algorithm import Algorithm
    from rlrun.engine.algorithm_config import AlgorithmConfig


def with_logged_actions(env: EnvConfig, algorithms: Mapping[str, Algorithm[Any]]) -> EnvConfig:
    """Sets `logged_actions` of an external env: whether policies learn from actions that clients chose themselves.

    Args:
        env: The env.
        algorithms: The algorithms by policy.

    Raises:
        UsageError: An algorithm does not support the setting `logged_actions`.
    """
    external = env.external
    if external is None:
        return env
    possible = {policy: _possible(algorithm.config) for policy, algorithm in algorithms.items()}
    wanted = external.logged_actions
    if wanted is None:
        wanted = "learn" if all(kind == "learn" for kind, _ in possible.values()) else "refuse"
    for policy, (kind, reason) in possible.items():
        if wanted not in ("refuse", kind):
            raise UsageError(
                f"env.external.logged_actions: {wanted} is not valid for policy {policy} "
                f"({algorithms[policy].name()}): {reason}; use {kind}"
            )
    return env.replace(external=external.replace(logged_actions=wanted))


def _possible(config: AlgorithmConfig) -> tuple[LoggedActions, str]:
    """Returns the most permissive value of `logged_actions` that an algorithm supports, with the reason."""
    if "model" not in config.refused and config.model.views.prev_actions:
        return "refuse", "its network sees its own previous actions (model.views.prev_actions)"
    if config.of_logged_actions == "mask" and config.model.core is not None:
        return "refuse", "its network has memory, which steps without a loss would break (model.core)"
    reasons: dict[LoggedActions, str] = {
        "learn": "it can learn from the actions of any policy",
        "mask": "it can learn only from its own actions",
        "refuse": "it can learn only from its own actions, and cannot leave out single steps",
    }
    return config.of_logged_actions, reasons[config.of_logged_actions]
