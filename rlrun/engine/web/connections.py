"""Open connections of an HTTP server: their number, and the time limit of their first request."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

CONNECTION = "connection"
"""Key of a request's `Connection` in the state of its ASGI scope."""


class Connection:
    """Open connection of a client, closed if the header of its first request takes too long.

    Args:
        accepted: The connection's socket, which is only shut down here; the HTTP server that reads from it closes it.
        connections: All open connections.
        header_s: Time limit in seconds for the first request's header, including a TLS handshake.
    """

    def __init__(self, accepted: socket.socket, connections: Connections, header_s: float) -> None:
        self._socket = accepted
        self._connections = connections
        self._deadline = asyncio.get_running_loop().call_later(header_s, self.shut_down)

    @property
    def is_open(self) -> bool:
        """Whether the connection's socket is still open."""
        return self._socket.fileno() != -1

    def take_header(self) -> None:
        """Records that a request's header has arrived completely, which cancels its time limit."""
        self._deadline.cancel()

    def admit(self) -> bool:
        """Marks the connection as admitted, so that it is no longer closed to make room for newer connections.

        Returns False if the maximum number of admitted connections has been reached.
        """
        return self._connections.admit(self)

    def shut_down(self) -> None:
        """Shuts down the connection's socket in both directions, so that the HTTP server stops reading from it."""
        self._deadline.cancel()
        with suppress(OSError):  # the client has disconnected, or the socket is closed
            self._socket.shutdown(socket.SHUT_RDWR)


class Connections:
    """Bounded set of a server's open connections.

    A connection is anonymous until one of its requests is admitted, for example by its token. Anonymous connections may
    take at most half of the places, and at least one place is always left for them. If they exceed their share, a new
    one displaces the oldest. A client that sends its request promptly is admitted before it can be displaced, so silent
    connections, however many, do not keep clients out.

    Args:
        most: Maximum number of open connections.
        header_s: Time limit in seconds for the header of each connection's first request.
    """

    def __init__(self, most: int, header_s: float) -> None:
        self._most = most
        self._header_s = header_s
        self._anonymous: dict[Connection, None] = {}  # from oldest to newest
        self._admitted: set[Connection] = set()

    def add(self, accepted: socket.socket) -> Connection:
        """Adds an accepted connection; older anonymous ones may be displaced."""
        connection = Connection(accepted, self, self._header_s)
        self._anonymous[connection] = None
        self._close_oldest()
        return connection

    def admit(self, connection: Connection) -> bool:
        """Marks a connection as admitted, for example after a request with the right token.

        Returns False if no place would be left for anonymous connections.
        """
        if connection in self._admitted:
            return True
        if len(self._admitted) >= self._most - 1:
            self._forget_closed()
        if len(self._admitted) >= self._most - 1:
            return False
        self._anonymous.pop(connection, None)
        self._admitted.add(connection)
        self._close_oldest()
        return True

    def close_oldest_anonymous(self) -> None:
        """Shuts down the oldest anonymous connection, if there is any."""
        if self._anonymous:
            oldest = next(iter(self._anonymous))
            del self._anonymous[oldest]
            oldest.shut_down()

    def _close_oldest(self) -> None:
        """Shuts down the oldest anonymous connections beyond their share."""
        if len(self._anonymous) > self._share:
            self._forget_closed()
        while len(self._anonymous) > self._share:
            self.close_oldest_anonymous()

    @property
    def _share(self) -> int:
        """Number of connections that may be anonymous."""
        return max(1, min(self._most // 2, self._most - len(self._admitted)))

    def _forget_closed(self) -> None:
        self._anonymous = {connection: None for connection in self._anonymous if connection.is_open}
        self._admitted = {connection for connection in self._admitted if connection.is_open}
