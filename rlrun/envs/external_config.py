"""Config of an external env, whose simulators connect as clients and ask for actions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import field_validator, model_validator

from rlrun.config import ConfigModel, NonEmptyText, NonNegativeFloat, PositiveFloat
from rlrun.data.space_json import space_from_json
from rlrun.envs.spaces import Spaces

ONLY_CLIENT_AGENT = "agent"
"""Id of the agent in external envs with one agent."""

_LEFT_OUT: Mapping[str, Mapping[str, Any]] = {
    "Box": {"dtype": "float32"},
    "Discrete": {"dtype": "int64", "start": 0},
    "MultiDiscrete": {"dtype": "int64"},
}
"""Entries of a space in JSON that may be left out here."""

_LARGEST_FILE_BYTES = 16_000_000


class TlsConfig(ConfigModel):
    """Certificate of a server, for encrypted connections."""

    cert: NonEmptyText
    """File of the certificate in PEM format."""

    key: NonEmptyText
    """File of its private key."""


class ExternalConfig(ConfigModel):
    """Server to which simulators connect as clients; see docs/external.md for the protocol."""

    port: Annotated[int, Ge(0), Le(65_535)] = 9900
    """Port of the server; a rollout worker's is `port` + its index, which is 0 without worker processes."""

    host: NonEmptyText = "127.0.0.1"
    """Address of the network interface, such as 0.0.0.0 for all. Any but this machine's own needs a token, from the
    environment variable RLRUN_TOKEN or from `token_file`."""

    spaces: dict[str, Any]
    """Spaces as JSON, `{observation: ..., action: ...}`, or those of several agents by id, `{buyer: {observation: ...,
    action: ...}, ...}`; or the name of a JSON file that holds them."""

    token_file: NonEmptyText | None = None
    """File that holds the token; null for the environment variable RLRUN_TOKEN."""

    tls: TlsConfig | None = None
    """Certificate for encrypted connections; null for none."""

    logged_actions: Literal["refuse", "mask", "learn"] | None = None
    """What becomes of actions that clients chose by themselves (`log_action`). `refuse`: they are an error. `mask`:
    their steps are in returns and advantages but not in the losses of an on-policy algorithm. `learn`: they are learned
    from. Null for refuse where the algorithm is on-policy, else learn."""

    client_timeout_s: PositiveFloat = 30.0
    """Silence in seconds after which a client counts as dead, so that its episodes end as truncated."""

    gather_ms: NonNegativeFloat = 5.0
    """Longest time in milliseconds for which a request waits, so that those of other running episodes are answered with
    it. A simulator that needs longer for a step is not waited for."""

    max_message_bytes: Annotated[int, Ge(1_000)] = 8_000_000
    """Maximum length of a message in bytes."""

    max_requests_per_s: PositiveFloat = 10_000.0
    """Maximum mean rate of requests of one address."""

    @field_validator("spaces", mode="before")
    @classmethod
    def _read(cls, spaces: Any) -> Any:
        """Reads the spaces of a file, so that a saved run does not need it."""
        return _from_file(Path(spaces)) if isinstance(spaces, str) else spaces

    @model_validator(mode="after")
    def _has_spaces(self) -> ExternalConfig:
        self.agents()
        return self

    def agents(self) -> dict[str, Spaces]:
        """Returns the spaces of each agent by id.

        Raises:
            ValueError: They are not given as they should.
        """
        given = {ONLY_CLIENT_AGENT: self.spaces} if {"observation", "action"} == set(self.spaces) else self.spaces
        if not given:
            raise ValueError("spaces: there must be at least one agent")
        return {agent: _spaces_of(agent, own) for agent, own in given.items()}


def _spaces_of(agent: str, given: Any) -> Spaces:
    if not isinstance(given, Mapping) or set(given) != {"observation", "action"}:
        raise ValueError(
            f"spaces: agent {agent!r} needs `observation` and `action`, each a space such as "
            "{type: Discrete, n: 2} or {type: Box, shape: [4], low: -1, high: 1}"
        )
    found = []
    for part in ("observation", "action"):
        try:
            found.append(space_from_json(_in_full(given[part])))
        except ValueError as error:
            raise ValueError(f"spaces: the {part} space of {agent!r}: {error}") from None
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


def _from_file(path: Path) -> Any:
    """Reads the spaces in a JSON file.

    Raises:
        ValueError: There is none, or it is no JSON.
    """
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE_BYTES:
            raise ValueError(f"spaces: there is no file {path} of at most {_LARGEST_FILE_BYTES:,} bytes")
        return json.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"spaces: {path} cannot be read: {error}") from None
