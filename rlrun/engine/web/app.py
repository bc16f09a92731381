"""ASGI applications for HTTP servers: guarded routes with JSON bodies, and errors as JSON."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from rlrun.engine.web.error_answers import RequestRefused, error_answer
from rlrun.engine.web.guard import Guard
from rlrun.engine.web.listening import Listening


def guarded_app(routes: Sequence[BaseRoute], listening: Listening, open_paths: frozenset[str] = frozenset()) -> ASGIApp:
    """Creates an ASGI application behind a `Guard`, with errors as JSON, `{"error": code, "message": text}`.

    Args:
        routes: Routes of the application; a route's function raises starlette's `HTTPException` to refuse a request.
        listening: Address, token and limits of the server.
        open_paths: Paths that require no token.
    """
    app = Starlette(routes=routes, exception_handlers={HTTPException: _as_json, Exception: _as_json})
    return Guard(app, listening, open_paths)


class PostedObjects:
    """ASGI application that answers each JSON object POSTed to `/` with the result of one function.

    It avoids Starlette's routes, requests and responses, which would double the time of a short answer.

    Args:
        answer: Function from the request's object to the answer; raises starlette's `HTTPException` to refuse it.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        try:
            if scope["path"] != "/":
                raise HTTPException(404, "Not Found")
            if scope["method"] != "POST":
                raise HTTPException(405, "Method Not Allowed", {"Allow": "POST"})
            found = await self._answer(_parsed(await _body(receive)))
        except HTTPException as error:
            await _error(error)(scope, receive, send)
            return
        except Exception as error:
            await _error(error)(scope, receive, send)
            raise
        content = _ENCODER.encode(found).encode()
        headers = [(b"content-length", b"%d" % len(content)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


async def _body(receive: Receive) -> bytes:
    """Reads a request's body.

    Raises:
        HTTPException: The client has disconnected.
    """
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HTTPException(400, _LEFT)
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def json_object(request: Request) -> dict[str, Any]:
    """Reads a request's body as a JSON object.

    Raises:
        HTTPException: The body is not a JSON object, or contains NaN or infinite numbers, which JSON does not allow.
    """
    try:
        return _parsed(await request.body())
    except ClientDisconnect:
        raise HTTPException(400, _LEFT) from None


def _parsed(body: bytes) -> dict[str, Any]:
    """Parses a request's body.

    Raises:
        HTTPException: The body is not a JSON object.
    """
    try:
        data = _DECODER.decode(body.decode())
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the request body is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise HTTPException(400, "the request body is not a JSON object")
    return data


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it contains {name}")


_LEFT = "the client disconnected during its request"
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


async def _as_json(request: Request, error: Exception) -> JSONResponse:
    return _error(error)


def _error(error: Exception) -> JSONResponse:
    if isinstance(error, RequestRefused):
        return error_answer(error.status_code, error.detail, error.code)
    if isinstance(error, HTTPException):
        return error_answer(error.status_code, error.detail, headers=error.headers)
    return error_answer(500, "internal server error; the server's output has the traceback")
