"""Errors of HTTP servers as JSON objects: a code for programs, and a message for human readers."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

CODES = {
    400: "bad_message",
    401: "token_wrong",
    403: "host_refused",
    404: "not_found",
    405: "method_not_allowed",
    409: "needs_session",
    413: "too_long",
    429: "too_many_requests",
    500: "server_failed",
    503: "busy",
}
"""Codes of errors by HTTP status."""


class RequestRefused(HTTPException):
    """Error for an HTTP request that is refused for a reason with a specific error code.

    Args:
        status: HTTP status of the answer.
        code: Error code, for programs.
        message: Explanation and advice, for human readers.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(status, message)
        self.code = code


def error_answer(
    status: int, message: str, code: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Creates the HTTP response `{"error": code, "message": message}`.

    Args:
        status: HTTP status.
        message: Explanation and advice, for human readers.
        code: Error code, for programs; None for the default code of the HTTP status.
        headers: Additional headers.
    """
    return JSONResponse({"error": code or CODES.get(status, f"http_{status}"), "message": message}, status, headers)
