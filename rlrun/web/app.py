"""Applications of HTTP servers: guarded routes with JSON bodies, and errors as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from rlrun.web.guard import Guard
from rlrun.web.listening import Listening


def guarded_app(routes: Sequence[BaseRoute], listening: Listening, open_paths: frozenset[str] = frozenset()) -> ASGIApp:
    """Creates an ASGI application whose errors are JSON objects `{"error": message}`.

    Args:
        routes: Routes of the application. Their functions refuse a request by starlette's `HTTPException`.
        listening: Token and limits.
        open_paths: Paths that take no token.
    """
    app = Starlette(routes=routes, exception_handlers={HTTPException: _as_json, Exception: _as_json})
    return Guard(app, listening, open_paths)


async def json_object(request: Request) -> dict[str, Any]:
    """Reads a request's body as a JSON object.

    Raises:
        HTTPException: The body is none, or holds NaN or infinite numbers, which JSON does not have.
    """
    try:
        data = json.loads(await request.body(), parse_constant=_refuse_constant)
    except ClientDisconnect:
        raise HTTPException(400, "the client left within its request") from None
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the request's body is no JSON: {error}") from None
    if not isinstance(data, dict):
        raise HTTPException(400, "the request's body is no JSON object")
    return data


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}")


async def _as_json(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    return JSONResponse({"error": "the server failed; its own output has the traceback"}, 500)
