"""HTTP server of clients' episodes: takes their messages as JSON, one or several in a request."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import Future
from typing import TYPE_CHECKING

from rlrun.envs.env_config import ExternalConfig
from rlrun.errors import EnvironmentUnusable
from rlrun.external.client_episodes import ClientEpisodes
from rlrun.external.episode import Answer

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from rlrun.web.listening import Listening
    from rlrun.web.web_server import WebServer

MOST_MESSAGES = 1_000
"""Maximum number of messages in a request."""


class EpisodeServer:
    """Server of clients' episodes, started at its first use.

    Args:
        episodes: The episodes.
        config: Address, limits and token.
        worker_index: Index of the rollout worker, which is added to the port.

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
        """Starts the server, unless it is running.

        Raises:
            UsageError: The port is taken, or there is no token.
            EnvironmentUnusable: The extra `serve` is not installed.
        """
        if self._server is not None:
            return
        try:
            from rlrun.web.web_server import WebServer
        except ImportError as error:
            raise EnvironmentUnusable(
                f"an external env needs the extra `serve`: pip install 'rlrun[serve]' ({error})"
            ) from error
        listening = self._listening()
        if warning := listening.warning:
            print(f"env external: {warning}", file=sys.stderr, flush=True)
        self._server = WebServer(_app(self.episodes, listening), listening)
        self.url = self._server.url
        self._server.start()
        print(f"env external: clients connect to {self.url}", file=sys.stderr, flush=True)

    def stop(self) -> None:
        """Ends the server; clients that wait get an error."""
        self.episodes.close()
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _listening(self) -> Listening:
        from rlrun.web.listening import Listening, read_token

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
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from rlrun.web.app import guarded_app, json_object

    async def take(request: Request) -> Response:
        body = await json_object(request)
        if "messages" not in body:
            return JSONResponse(await _result(episodes.ask(body)))
        messages = body["messages"]
        if not isinstance(messages, list) or len(messages) > MOST_MESSAGES:
            raise HTTPException(400, f"messages must be a list of at most {MOST_MESSAGES:,} objects")
        asked = [episodes.ask(each if isinstance(each, dict) else {}) for each in messages]
        return JSONResponse({"answers": [await _result(answer) for answer in asked]})

    return guarded_app([Route("/", take, methods=["POST"])], listening)


async def _result(answer: Future[Answer]) -> Answer:
    """Waits for an answer; most of a request's answers come at once, so that one wait serves all."""
    return answer.result() if answer.done() else await asyncio.wrap_future(answer)
