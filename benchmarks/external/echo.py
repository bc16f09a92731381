"""Floor of the external benchmark: Starlette and Uvicorn alone, which return each request's body unchanged."""

from __future__ import annotations

import time

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.external.load import Load, pinned
from benchmarks.peers import Measurement, answer
from rlrun.engine.web.listening import Listening
from rlrun.engine.web.web_server import WebServer


async def echo(request: Request) -> Response:
    """Returns the request's body."""
    return Response(await request.body(), media_type="application/json")


def measured(work: Measurement) -> Measurement:
    """Answers clients on other cores, and returns their measurements."""
    pinned()
    app = Starlette(routes=[Route("/", echo, methods=["POST"])])
    with WebServer(app, Listening()) as server, Load({**work, "begins": False}, server.port) as load:
        while load.measured is None:
            time.sleep(0.5)
    return load.measured


if __name__ == "__main__":
    answer(measured)
