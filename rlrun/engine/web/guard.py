"""Guard of an HTTP server: checks token, origin, rate and size of requests, and admits connections."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlrun.engine.web.connections import CONNECTION
from rlrun.engine.web.error_answers import error_answer
from rlrun.engine.web.listening import Listening, is_loopback

_MOST_ADDRESSES = 1_000
_Headers = dict[bytes, bytes]


class Guard:
    """ASGI application that checks each request, and passes only valid ones on to another application.

    A server without a token accepts requests only from this machine. Requests from web pages of other sites are refused
    too, since a browser on this machine could send them.

    Args:
        app: The guarded application.
        listening: Address, token and limits of the server.
        open_paths: Paths that require no token.
    """

    def __init__(self, app: ASGIApp, listening: Listening, open_paths: frozenset[str]) -> None:
        self._app = app
        self._listening = listening
        self._open_paths = open_paths
        self._expected = f"Bearer {listening.token}".encode()
        self._rates = Rates(listening.most_requests_per_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request with a refusal, or passes it to the application."""
        refusal = self._refusal(scope, dict(scope["headers"]))
        if refusal is not None:
            await error_answer(*refusal)(scope, receive, send)
            return
        await self._app(scope, self._limited(receive), send)

    def _refusal(self, scope: Scope, headers: _Headers) -> tuple[int, str] | None:
        """Returns status and message for a refused request; None for an accepted one."""
        most = self._listening
        if not self._rates.take(scope["client"][0], time.monotonic()):
            return 429, f"more than {most.most_requests_per_s:g} requests per second from this address: slow down"
        if most.token is None:
            if not _is_local_request(headers):
                return 403, (
                    "without a token, this server accepts requests only from its own machine: the headers `Host` "
                    "and `Origin` must name it, as in http://127.0.0.1"
                )
        elif scope["path"] not in self._open_paths and not hmac.compare_digest(
            headers.get(b"authorization", b""), self._expected
        ):
            return 401, "the header 'Authorization: Bearer TOKEN' is missing or has the wrong token"
        if int(headers.get(b"content-length", 0)) > most.most_body_bytes:
            return 413, self._too_long
        if scope["path"] not in self._open_paths and not scope["state"][CONNECTION].admit():
            return 503, f"no connection is free (limit: {most.most_connections:,}); try again later"
        return None

    @property
    def _too_long(self) -> str:
        return f"the request is larger than {self._listening.most_body_bytes:,} bytes"

    def _limited(self, receive: Receive) -> Receive:
        """Wraps `receive` to refuse a body that is longer than allowed, even if its length is not declared."""
        length = 0

        async def limited() -> Message:
            nonlocal length
            message = await receive()
            length += len(message.get("body", b""))
            if length > self._listening.most_body_bytes:
                raise HTTPException(413, self._too_long)
            return message

        return limited


class Rates:
    """Rate limiter: a token bucket per client address, with a capacity of one second's requests.

    Args:
        most_per_s: Maximum mean rate of one client address, in requests per second.
    """

    def __init__(self, most_per_s: float) -> None:
        self._most_per_s = most_per_s
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str, now_s: float) -> bool:
        """Counts a request from an address at a given time in seconds.

        Returns False if the address exceeds its rate limit.
        """
        size = max(self._most_per_s, 1.0)
        left, last_s = self._buckets.pop(address, (size, now_s))
        left = min(size, left + (now_s - last_s) * self._most_per_s)
        is_taken = left >= 1
        self._buckets[address] = (left - is_taken, now_s)
        if len(self._buckets) > _MOST_ADDRESSES:
            self._buckets.popitem(last=False)
        return is_taken


def _is_local_request(headers: _Headers) -> bool:
    """Whether a request names this machine as its host, and does not come from another site's web page."""
    host = headers.get(b"host", b"").decode("latin-1")
    origin = headers.get(b"origin")
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return is_loopback(name) and (origin is None or urlsplit(origin.decode("latin-1")).netloc == host)
    except ValueError:
        return False
