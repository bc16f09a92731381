"""Env on an OpenEnv server, used over a WebSocket session (`openenv` extra).

The protocol is the one in openenv-core 0.3: `reset`, `step` and `close` messages in JSON; observations and actions are
objects with named fields. `done` ends an episode as terminated, since the protocol has no truncation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium.spaces import Dict
from typing_extensions import override

from rlrun.engine.data.space_json import space_from_json
from rlrun.engine.data.space_kinds import batched
from rlrun.engine.data.tree import map_tree
from rlrun.engine.envs.json_values import batch_from_json, batch_to_json
from rlrun.engine.envs.spaces import SpaceMismatch
from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

_MOST_BYTES = 100_000_000
_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


class OpenEnv(gymnasium.Env[Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Env on an OpenEnv server.

    Each env has a separate session. A lost connection ends the session, and the next reset opens a new one.

    Args:
        url: Address of the server, such as ws://localhost:8000.
        spaces: Spaces of `observation` and `action` in JSON form, each a Dict with the fields to use. Other fields of
            observations are ignored.
        timeout_s: Seconds to wait for an answer from the server.
        reset: Arguments for each reset, in addition to the seed.

    Raises:
        UsageError: The address or a space is invalid.
        EnvironmentUnusable: The package `websockets` is missing.
    """

    def __init__(
        self, url: str, spaces: Mapping[str, Any], timeout_s: float = 60.0, reset: Mapping[str, Any] | None = None
    ) -> None:
        if find_spec("websockets") is None:
            raise EnvironmentUnusable("an OpenEnv server needs the package websockets: pip install 'rlrun[openenv]'")
        scheme, _, place = url.partition("://")
        if scheme not in _SCHEMES or not place:
            raise UsageError(f"openenv: {url!r:.80} is not an address such as ws://localhost:8000")
        self._url = f"{_SCHEMES[scheme]}://{place.rstrip('/').removesuffix('/ws')}/ws"
        self._timeout_s = timeout_s
        self._reset_arguments = dict(reset or {})
        self.observation_space, self.action_space = (_space(spaces, part) for part in ("observation", "action"))
        self._session = ExitStack()
        self._connection: ClientConnection | None = None

    @override
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        seeded = {} if seed is None else {"seed": seed % 2**31}
        answer = self._ask("reset", {**self._reset_arguments, **(options or {}), **seeded})
        return self._observation(answer, "reset"), {}

    @override
    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        (fields,) = batch_to_json(batched(self.action_space, action))
        answer = self._ask("step", fields)
        reward, done = answer.get("reward"), answer.get("done", False)
        if not isinstance(reward, int | float | None) or not isinstance(done, bool):
            raise OpenEnvError(f"{self._url} answered step with the reward {reward!r:.40} and done {done!r:.40}")
        return self._observation(answer, "step"), float(reward or 0.0), done, False, {}

    @override
    def close(self) -> None:
        self._connection = None
        self._session.close()

    def _ask(self, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Sends a message, and returns the data of its answer.

        Raises:
            OpenEnvError: The server cannot be reached, does not answer in time, or answers with an error.
        """
        from websockets.exceptions import WebSocketException

        if kind == "step" and self._connection is None:
            raise OpenEnvError(f"{self._url}: no session is open; reset the env first")
        try:
            connection = self._connection or self._connected()
            connection.send(json.dumps({"type": kind, "data": data}))
            answer = json.loads(connection.recv(self._timeout_s))
        except TimeoutError:
            self.close()
            raise OpenEnvError(f"{self._url} did not answer {kind} within {self._timeout_s:g} s") from None
        except (OSError, WebSocketException) as error:
            self.close()
            raise OpenEnvError(f"{self._url}: the connection failed during {kind}: {error}") from error
        except ValueError as error:
            raise OpenEnvError(f"{self._url} answered {kind} with invalid JSON: {error}") from None
        found = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(found, dict):
            raise OpenEnvError(f"{self._url} answered {kind} with {answer!r:.80}")
        if answer.get("type") != "observation":
            told = f"{found.get('code', 'unknown')}: {found.get('message', '')} {found.get('errors', '')}".strip()
            raise OpenEnvError(f"{self._url} answered {kind} with the error {told:.2000}")
        return found

    def _connected(self) -> ClientConnection:
        from websockets.sync.client import connect

        opened = connect(self._url, open_timeout=self._timeout_s, max_size=_MOST_BYTES, proxy=None)
        self._connection = self._session.enter_context(opened)
        return self._connection

    def _observation(self, answer: Mapping[str, Any], kind: str) -> Any:
        """Observation in an answer, reduced to the fields of the space."""
        fields = answer.get("observation")
        if not isinstance(fields, dict):
            raise OpenEnvError(f"{self._url} answered {kind} without an observation")
        known = {key: fields[key] for key in self.observation_space if key in fields}
        try:
            batch = batch_from_json(self.observation_space, [known])
        except SpaceMismatch as error:
            raise OpenEnvError(
                f"{self._url}, during {kind}: {error}; the server sent the fields {sorted(fields)}"
            ) from None
        return map_tree(lambda leaf: leaf[0], batch)


class OpenEnvError(Exception):
    """Error: an OpenEnv server failed or sent an invalid answer."""


def _space(spaces: Mapping[str, Any], part: str) -> Dict:
    """Space of observations or actions.

    Raises:
        UsageError: The data does not describe a space, or the space is not a Dict.
    """
    try:
        space = space_from_json(spaces[part])
    except (KeyError, TypeError):
        raise UsageError("openenv: `spaces` must have the entries `observation` and `action`") from None
    except ValueError as error:
        raise UsageError(f"openenv: the {part} space: {error}") from None
    if not isinstance(space, Dict):
        raise UsageError(
            f"openenv: the {part} space must be a Dict with the fields of the server's {part}s, not a "
            f"{type(space).__name__}"
        )
    return space
