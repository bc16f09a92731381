"""HTTP server in a thread of this process."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from rlrun.errors import UsageError
from rlrun.web.listening import Listening

_KEEP_ALIVE_S = 75
"""Seconds after which an idle connection is closed; simulators may think for long between two requests."""

_STOP_S = 2
"""Seconds for which running requests may delay the stop."""


class WebServer:
    """HTTP server in a thread of this process, a context manager that stops it.

    Its port is open from construction on; clients that connect before `start` wait. Signals stay with the process,
    and only failures are logged.

    Args:
        app: The ASGI application.
        listening: Where to listen.

    Attributes:
        port: The port.
        url: The server's address, such as `http://127.0.0.1:8000`.

    Raises:
        UsageError: The port is taken, or the certificate cannot be used.
    """

    def __init__(self, app: ASGIApp, listening: Listening) -> None:
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=listening.most_connections,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_STOP_S,
            ssl_certfile=listening.cert,
            ssl_keyfile=listening.key,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"TLS with certificate {listening.cert} and key {listening.key}: {error}") from None
        self._socket = _bound(listening)
        self.port: int = self._socket.getsockname()[1]
        host = f"[{listening.host}]" if ":" in listening.host else listening.host
        self.url = f"{'http' if listening.cert is None else 'https'}://{host}:{self.port}"
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True, name="web-server")

    def start(self) -> None:
        """Starts to answer requests."""
        self._thread.start()

    def wait(self) -> None:
        """Waits until the server ends; signals interrupt it."""
        self._thread.join()

    def stop(self) -> None:
        """Ends the server and its thread, after running requests or `_STOP_S` seconds; again without effect."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        self._socket.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _bound(listening: Listening) -> socket.socket:
    """Opens the listening socket.

    Raises:
        UsageError: The port is taken, or there is no such interface.
    """
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    address, backlog = (listening.host, listening.port), listening.most_connections
    try:
        bound = socket.create_server(address, family=family, backlog=backlog)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error  # below 0: no such host
        raise UsageError(f"cannot listen on {listening.host}, port {listening.port}: {reason}") from None
    # Inherited by connections. Otherwise the body of an answer waits 40 ms for the acknowledgement of its header.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound
