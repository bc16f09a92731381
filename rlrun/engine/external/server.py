"""HTTP server for external simulators: receives messages about their episodes as JSON, one or several per request."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from rlrun.engine.envs.env_config import ExternalConfig
from rlrun.engine.external.client_episodes import ClientEpisodes
from rlrun.engine.external.episode import Answer
from rlrun.engine.messages.errors import EnvironmentUnusable

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from rlrun.engine.web.listening import Listening
    from rlrun.engine.web.web_server import WebServer

MOST_MESSAGES = 1_000
"""Maximum number of messages in a request."""


class EpisodeServer:
    """HTTP server for episodes of external simulators, started on first use.

    Args:
        episodes: The episodes.
        config: Address, limits and token of the server.
        worker_index: Index of the rollout worker, which is added to the port number.

    Attributes:
        episodes: The episodes.
        url: Address of the running server, "" before it is started.
    """

    def __init__(self, episodes: ClientEpisodes, config: ExternalConfig, worker_index: int) -> None:
        self.episodes = episodes
        self.url = ""
        self._config = config
        self._worker_index = worker_index
        self._server: WebServer | None = None

    def start(self) -> None:
        """Starts the server, unless it is already running.

        Raises:
            UsageError: The port is taken, or there is no token.
            EnvironmentUnusable: The `serve` extra is not installed.
        """
        if self._server is not None:
            return
        try:
            from rlrun.engine.web.web_server import WebServer
        except ImportError as error:
            raise EnvironmentUnusable(
                f"an external env needs the `serve` extra: pip install 'rlrun[serve]' ({error})"
            ) from error
        listening = self._listening()
        if warning := listening.warning:
            print(f"env external: {warning}", file=sys.stderr, flush=True)
        self._server = WebServer(_app(self.episodes, listening), listening)
        self.url = self._server.url
        self._server.start()
        print(f"env external: clients connect to {self.url}", file=sys.stderr, flush=True)

    def stop(self) -> None:
        """Stops the server; waiting clients receive an error."""
        self.episodes.close()
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _listening(self) -> Listening:
        from rlrun.engine.web.listening import Listening, read_token

        config = self._config
        return Listening(
            port=config.port + self._worker_index if config.port else 0,
            host=config.host,
            token=read_token(config.token_file),
            cert=None if config.tls is None else config.tls.cert,
            key=None if config.tls is None else config.tls.key,
            most_body_bytes=config.max_message_bytes,
            most_requests_per_s=config.max_requests_per_s,
        )


def _app(episodes: ClientEpisodes, listening: Listening) -> ASGIApp:
    from starlette.exceptions import HTTPException

    from rlrun.engine.web.app import PostedObjects
    from rlrun.engine.web.guard import Guard

    arrivals = _Arrivals()

    async def take(body: dict[str, Any]) -> dict[str, Any]:
        if "messages" not in body:
            return await arrivals.of(episodes.ask(body))
        messages = body["messages"]
        if not isinstance(messages, list) or len(messages) > MOST_MESSAGES:
            raise HTTPException(400, f"messages must be a list of at most {MOST_MESSAGES:,} objects")
        asked = episodes.ask_all([each if isinstance(each, dict) else {} for each in messages])
        for answer in reversed(asked):  # waits for the last answer first, so that one wait serves all
            await arrivals.of(answer)
        return {"answers": [answer.result() for answer in asked]}

    return Guard(PostedObjects(take), listening, frozenset())


class _Arrivals:
    """Bridge for answers from another thread; wakes the event loop once for all answers that arrive together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrived: list[asyncio.Future[None]] = []

    async def of(self, answer: Future[Answer]) -> Answer:
        """Waits for an answer."""
        if not answer.done():
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            answer.add_done_callback(lambda _: self._put(loop, waiter))
            await waiter
        return answer.result()

    def _put(self, loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None]) -> None:
        with self._lock:
            self._arrived.append(waiter)
            is_first = len(self._arrived) == 1
        if is_first and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        with self._lock:
            arrived, self._arrived = self._arrived, []
        for waiter in arrived:
            if not waiter.done():  # its client may have disconnected
                waiter.set_result(None)
