"""Agents of an external env, whose spaces are given as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlrun.data.space_json import space_from_json
from rlrun.envs.env_config import ExternalConfig
from rlrun.envs.spaces import Spaces
from rlrun.errors import UsageError

ONLY_CLIENT_AGENT = "agent"
"""Id of the agent in external envs with one agent."""

_LEFT_OUT: Mapping[str, Mapping[str, Any]] = {
    "Box": {"dtype": "float32"},
    "Discrete": {"dtype": "int64", "start": 0},
    "MultiDiscrete": {"dtype": "int64"},
}
"""Entries of a space in JSON that may be left out in a spec."""


def agents_of(external: ExternalConfig) -> dict[str, Spaces]:
    """Returns the spaces of each agent by id.

    Raises:
        UsageError: They are not given as they should.
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
            found.append(space_from_json(_in_full(given[part])))
        except ValueError as error:
            raise UsageError(f"env.external.spaces: the {part} space of {agent!r}: {error}") from None
    return Spaces(*found)


def _in_full(space: Any) -> Any:
    """Adds the dtype and start of a space that leaves them out."""
    if not isinstance(space, Mapping):
        return space
    parts = space.get("spaces")
    if isinstance(parts, Mapping):
        parts = {key: _in_full(part) for key, part in parts.items()}
    elif isinstance(parts, list):
        parts = [_in_full(part) for part in parts]
    return {**_LEFT_OUT.get(str(space.get("type")), {}), **space, **({} if parts is None else {"spaces": parts})}
