"""Address, token, certificate and limits of an HTTP server."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from rlrun.engine.messages.errors import UsageError

TOKEN_VARIABLE = "RLRUN_TOKEN"
"""Environment variable that holds the token of servers and clients."""

_TOKEN = re.compile(r"[!-~]{16,}")


@dataclass(frozen=True)
class Listening:
    """Address of an HTTP server, and limits on who may send requests and how large they may be.

    A server on the loopback interface is reachable only from this machine. On any other interface, each request must
    carry a token.

    Attributes:
        port: Port number; 0 for any free port.
        host: Address of the network interface, such as 0.0.0.0 for all.
        token: Secret that each request carries as `Authorization: Bearer TOKEN`; None for no token.
        cert: File of the TLS certificate in PEM format; None for plain HTTP.
        key: File of the certificate's private key; None if `cert` holds it, or for plain HTTP.
        most_body_bytes: Maximum length of a request's body in bytes.
        most_requests_per_s: Maximum mean rate of requests of one client address.
        most_connections: Maximum number of open connections; those without a token share at most half of them.
        header_s: Time limit in seconds for the header of a new connection's first request.

    Raises:
        UsageError: Other machines could send requests without a token, or there is a key without a certificate.
    """

    port: int = 0
    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    cert: str | None = None
    key: str | None = None
    most_body_bytes: int = 8_000_000
    most_requests_per_s: float = 10_000.0
    most_connections: int = 1_000
    header_s: float = 10.0

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise UsageError(
                f"other machines can reach a server on {self.host}, so a token is required: {_how_to_set()}, "
                "or listen on 127.0.0.1"
            )
        if self.key is not None and self.cert is None:
            raise UsageError("a TLS private key needs its certificate too")

    @property
    def warning(self) -> str:
        """Warning that the token is sent unencrypted between machines; "" if it is not."""
        if self.cert is not None or is_loopback(self.host):
            return ""
        return f"the token is sent unencrypted to {self.host}: outside a trusted network, use TLS, or a proxy that does"


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether a host name or address refers to this machine only.

    Examples:
        >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
        (True, True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_web_packages() -> None:
    """Validates that the packages for HTTP servers are installed.

    Raises:
        UsageError: The packages are not installed; the message names the extra to install.
    """
    absent = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if absent:
        raise UsageError(f"an HTTP server needs {' and '.join(absent)}: pip install 'rlrun[serve]'")


def read_token(file: str | Path | None = None) -> str | None:
    """Reads the secret token of servers and clients from a file, or else from the environment variable RLRUN_TOKEN.

    Returns None if there is neither a file nor the variable.

    Raises:
        UsageError: The file cannot be read, or the token is too short or contains blanks.
    """
    if file is None:
        token, source = os.environ.get(TOKEN_VARIABLE), f"the environment variable {TOKEN_VARIABLE}"
        if token is None:
            return None
    else:
        source = f"the token file {file}"
        try:
            token = Path(file).read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot read {source}: {error}") from None
    if not _TOKEN.fullmatch(token):
        raise UsageError(
            f"{source} must contain a token of at least 16 ASCII characters without spaces: {_how_to_set()}"
        )
    return token


def _how_to_set() -> str:
    return f"export {TOKEN_VARIABLE}=$(python -c 'import secrets; print(secrets.token_urlsafe())')"
