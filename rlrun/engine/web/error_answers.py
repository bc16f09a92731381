"""Errors of HTTP servers as JSON objects: a code for programs, and a message for people."""

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


class Refused(HTTPException):
    """Error: a request is refused for a reason that has a code of its own.

    Args:
        status: HTTP status of the answer.
        code: The reason, for programs.
        message: The reason and what to do, for people.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(status, message)
        self.code = code


def error_answer(
    status: int, message: str, code: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Creates the answer `{"error": code, "message": message}`.

    Args:
        status: HTTP status.
        message: What is wrong and what to do, for people.
        code: Kind of the error, for programs; None for that of the status.
        headers: Further headers.
    """
    return JSONResponse({"error": code or CODES.get(status, f"http_{status}"), "message": message}, status, headers)
