"""HTTP server in a thread of this process."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import override

from rlrun.engine.messages.errors import UsageError
from rlrun.engine.web.connections import CONNECTION, Connection, Connections
from rlrun.engine.web.listening import Listening

_KEEP_ALIVE_S = 75
"""Seconds after which an idle connection is closed; simulators may take long between two requests."""

_STOP_S = 2
"""Seconds for which running requests may delay the stop."""

_PAUSE_S = 0.01
"""Seconds to wait after a connection could not be accepted, for example without a free file descriptor."""


class WebServer:
    """HTTP server in a thread of this process; as a context manager, it stops the server on exit.

    The constructor opens the port; clients that connect before `start` have to wait. The server handles no signals and
    logs only failures.

    Args:
        app: The ASGI application.
        listening: Address and limits.

    Attributes:
        port: Port number.
        url: The server's address, such as `http://127.0.0.1:8000`.

    Raises:
        UsageError: The port is taken, or the certificate cannot be used.
    """

    def __init__(self, app: ASGIApp, listening: Listening) -> None:
        config = uvicorn.Config(
            _noting_headers(app),
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_STOP_S,
        )
        config.load()
        tls = None if listening.cert is None else _tls(listening.cert, listening.key)
        self._socket = _bound(listening)
        self.port: int = self._socket.getsockname()[1]
        host = f"[{listening.host}]" if ":" in listening.host else listening.host
        self.url = f"{'http' if listening.cert is None else 'https'}://{host}:{self.port}"
        self._server = _Server(config, Connections(listening.most_connections, listening.header_s), tls)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True, name="web-server")

    def start(self) -> None:
        """Starts the thread that answers requests."""
        self._thread.start()

    def wait(self) -> None:
        """Waits until the server ends; signals such as Ctrl-C interrupt the wait."""
        self._thread.join()

    def stop(self) -> None:
        """Stops the server and its thread once running requests are done, or after `_STOP_S` seconds.

        It may be called repeatedly.
        """
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


class _Server(uvicorn.Server):
    """Server that limits the number of its connections, starting when they are accepted.

    Args:
        config: Settings of the server.
        connections: The open connections.
        tls: Certificate of the server; None for plain HTTP.
    """

    def __init__(self, config: uvicorn.Config, connections: Connections, tls: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self._connections = connections
        self._tls = tls
        self._opening: set[asyncio.Task[None]] = set()

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets is not None
        (listening,) = sockets
        listening.setblocking(False)
        self.servers = []
        self._accepting = asyncio.create_task(self._accept(listening))
        self.started = True

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._accepting.cancel()
        await super().shutdown(sockets)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError:  # no file descriptor is free, or the client has already disconnected
                self._connections.close_oldest_anonymous()
                await asyncio.sleep(_PAUSE_S)
                continue
            opening = loop.create_task(self._open(accepted, self._connections.add(accepted)))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)
            await asyncio.sleep(0)  # lets requests be read between connections, however fast these arrive

    async def _open(self, accepted: socket.socket, connection: Connection) -> None:
        http = partial(
            self.config.http_protocol_class,  # type: ignore[call-arg]  # of any of uvicorn's protocols
            config=self.config,
            server_state=self.server_state,
            app_state={CONNECTION: connection},
        )
        with suppress(OSError):  # the client has disconnected, or does not use TLS
            await asyncio.get_running_loop().connect_accepted_socket(http, accepted, ssl=self._tls)


def _noting_headers(app: ASGIApp) -> ASGIApp:
    """Wraps an application so that complete request headers are recorded."""

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"][CONNECTION].take_header()
        await app(scope, receive, send)

    return noting


def _tls(cert: str, key: str | None) -> ssl.SSLContext:
    """Loads a certificate.

    Raises:
        UsageError: The certificate cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        files = (
            f"the certificate {cert} and the private key {key}"
            if key
            else f"a certificate and its private key from {cert}"
        )
        # Cuts off the location in Python's own source, which Python appends.
        reason = str(error).partition(" (_ssl.c:")[0]
        raise UsageError(f"cannot load {files}; both must be in PEM format: {reason}") from None
    return context


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
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error  # negative: no such host
        raise UsageError(f"cannot listen on {listening.host}, port {listening.port}: {reason}") from None
    # Connections inherit this option. Without it, an answer's body waits 40 ms for the header's acknowledgement.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound
