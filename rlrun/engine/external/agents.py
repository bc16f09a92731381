"""Agents of an external simulator, and the JSON form of their spaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlrun.engine.data.space_json import space_from_json
from rlrun.engine.envs.env_config import ExternalConfig
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError

ONLY_CLIENT_AGENT = "agent"
"""Id of the agent in external envs with one agent."""


def agents_of(external: ExternalConfig) -> dict[str, Spaces]:
    """Parses the JSON form of each agent's observation and action space; returns the spaces by agent id.

    Raises:
        UsageError: The description of the agents is malformed.
    """
    given = external.spaces
    if set(given) == {"observation", "action"}:
        given = {ONLY_CLIENT_AGENT: given}
    if not given:
        raise UsageError("env.external.spaces: there must be at least one agent")
    return {agent: _spaces_of(agent, own) for agent, own in given.items()}


def _spaces_of(agent: str, given: Any) -> Spaces:
    if not isinstance(given, Mapping) or set(given) != {"observation", "action"}:
        raise UsageError(
            f"env.external.spaces: agent {agent!r} needs `observation` and `action`, each a space such as "
            "{type: Discrete, n: 2} or {type: Box, shape: [4], low: -1, high: 1}"
        )
    found = []
    for part in ("observation", "action"):
        try:
            found.append(space_from_json(given[part]))
        except ValueError as error:
            raise UsageError(f"env.external.spaces: the {part} space of {agent!r}: {error}") from None
    return Spaces(*found)
