"""HTTP application for a served policy, which answers concurrent requests in batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from rlrun.deploy.serving.decisions import Answer, Asked, Decisions, Sessions
from rlrun.deploy.serving.serving_metrics import ServingMetrics
from rlrun.engine.data.action_masks import ACTION_MASK, has_action_mask, masked_choices
from rlrun.engine.envs.json_values import action_batch_from_json, batch_from_json
from rlrun.engine.envs.spaces import SpaceMismatch
from rlrun.engine.envs.step_columns import finite_number
from rlrun.engine.messages.errors import did_you_mean
from rlrun.engine.web.app import guarded_app, json_object
from rlrun.engine.web.listening import Listening

QUICK_S = 0.001
"""Duration of a batch, in seconds, below which the next batch is computed in the thread that receives requests.

Passing such a batch to another thread would take longer. A slower batch in this thread would delay health checks.
"""

_Waiting = tuple[Asked, "asyncio.Future[Answer]"]

MOST_OBSERVATIONS = 4_096
"""Maximum number of observations of one request, and of a batch of several requests."""

LARGEST_REWARD = float(np.finfo(np.float32).max)
"""Largest absolute value of a reward in a request: the largest float32, since networks may receive rewards."""

PAGE = Path(__file__).parent / "page.html"
OPEN_PATHS = frozenset({"/", "/health"})
"""Paths that require no token: a page without data, and a health check."""

Endpoint = Callable[[Request], Awaitable[Response]]


class PolicyApp:
    """HTTP application for a served policy: decisions, sessions, schema, health, metrics and a page to try the policy.

    Args:
        decisions: Object that answers requests with the policy.
        sessions: Sessions of clients.

    Attributes:
        decisions: Object that answers requests; its policy may be replaced at any time by one with the same spaces.
        metrics: Counts of requests, and latencies of answers.
    """

    def __init__(self, decisions: Decisions, sessions: Sessions) -> None:
        self.decisions = decisions
        self.metrics = ServingMetrics()
        self._sessions = sessions
        self._spaces = decisions.served.spaces
        self._batches = Batches(decisions.decide, MOST_OBSERVATIONS)
        self._firsts: list[int] = []
        if has_action_mask(self._spaces.observation):
            self._firsts = np.cumsum([0, *masked_choices(self._spaces.action)[:-1]]).tolist()
        self._begun_s = time.monotonic()

    def asgi(self, listening: Listening) -> ASGIApp:
        """Creates the ASGI application, which checks the token and the size of each request."""
        routes = [
            self._route("/act", self._act, "POST"),
            self._route("/session", self._session, "POST"),
            self._route("/session/{session}", self._end_session, "DELETE"),
            self._route("/schema", self._schema, "GET"),
            Route("/health", self._health),
            Route("/metrics", self._metrics),
            Route("/", self._page),
        ]
        return guarded_app(routes, listening, OPEN_PATHS)

    def close(self) -> None:
        """Ends the thread that computes decisions."""
        self._batches.close()

    def _route(self, path: str, endpoint: Endpoint, method: str) -> Route:
        async def counted(request: Request) -> Response:
            start_s, status = time.perf_counter(), 500
            try:
                answer = await endpoint(request)
                status = answer.status_code
            except HTTPException as error:
                status = error.status_code
                raise
            finally:
                self.metrics.count(path, status, time.perf_counter() - start_s)
            return answer

        return Route(path, counted, methods=[method])

    async def _act(self, request: Request) -> Response:
        """Answers one observation, or several that do not depend on each other."""
        data = _with_keys(await json_object(request), "observation", "observations", "details")
        if self.decisions.served.has_memory:
            raise HTTPException(409, "this policy has memory: send requests to /session")
        if ("observation" in data) == ("observations" in data):
            raise HTTPException(400, "send either `observation`, or `observations` with a list")
        many = data.get("observations")
        if "observations" in data and not (isinstance(many, list) and 0 < len(many) <= MOST_OBSERVATIONS):
            raise HTTPException(400, f"`observations` must be a list of 1 to {MOST_OBSERVATIONS:,} observations")
        rows = [data["observation"]] if many is None else many
        answer = await self._answer(Asked(self._observations(rows), len(rows), details=_flag(data, "details")))
        return _json(_as_one(answer) if many is None else answer)

    async def _session(self, request: Request) -> Response:
        """Answers the next observation of an episode."""
        keys = ("session", "observation", "reset", "reward", "executed_action", "details")
        data = _with_keys(await json_object(request), *keys)
        if "observation" not in data:
            raise HTTPException(400, "`observation` is missing")
        observations, reward, executed = self._observations([data["observation"]]), _reward(data), None
        if data.get("executed_action") is not None:
            with _refused_misfits():
                executed = action_batch_from_json(self._spaces.action, [data["executed_action"]])
        details, reset = _flag(data, "details"), _flag(data, "reset")
        session = self._sessions.begin() if data.get("session") is None else self._sessions.existing(data["session"])
        if reset:
            session.memory = None
        return _json(_as_one(await self._answer(Asked(observations, 1, details, session, reward, executed))))

    async def _end_session(self, request: Request) -> Response:
        self._sessions.end(request.path_params["session"])
        return JSONResponse({"ended": request.path_params["session"]})

    async def _answer(self, asked: Asked) -> Answer:
        answer = await self._batches.answer(asked)
        self.metrics.decisions += asked.num_rows
        return answer

    def _observations(self, rows: list[Any]) -> Any:
        """Converts observations in JSON form to a batch.

        Raises:
            HTTPException: An observation is not in the space, or its mask allows no action.
        """
        with _refused_misfits():
            batch = batch_from_json(self._spaces.observation, rows)
        if self._firsts and not np.logical_or.reduceat(batch[ACTION_MASK], self._firsts, axis=1).all():
            raise HTTPException(400, "the action_mask of an observation allows no action; it must allow at least one")
        return self.decisions.served.privileged.completed(batch, len(rows))

    async def _schema(self, request: Request) -> Response:
        return JSONResponse(self.decisions.served.schema())

    async def _health(self, request: Request) -> Response:
        """Answers a health check, without any data on the policy, since no token is required."""
        health = {
            "status": "reload_failing" if self.metrics.is_reload_failing else "ok",
            "failed_reloads": self.metrics.failed_reloads,
            "uptime_s": round(time.monotonic() - self._begun_s, 3),
        }
        return JSONResponse(health)

    async def _metrics(self, request: Request) -> Response:
        gauges = {"sessions": len(self._sessions), "checkpoint_env_steps": self.decisions.served.env_steps}
        return PlainTextResponse(self.metrics.text(gauges))

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(PAGE.read_text("utf-8"))


def _with_keys(data: dict[str, Any], *keys: str) -> dict[str, Any]:
    for key in data:
        if key not in keys:
            hint = did_you_mean(key, keys) or f"; must be one of: {', '.join(keys)}"
            raise HTTPException(400, f"unknown key {key!r:.80}{hint}")
    return data


def _flag(data: Mapping[str, Any], key: str) -> bool:
    flag = data.get(key, False)
    if not isinstance(flag, bool):
        raise HTTPException(400, f"`{key}` must be true or false, not {flag!r:.40}")
    return flag


def _reward(data: Mapping[str, Any]) -> float:
    given = data.get("reward", 0.0)
    number = None if isinstance(given, bool) else finite_number(given)
    if number is None or abs(number) > LARGEST_REWARD:
        raise HTTPException(
            400, f"`reward` must be a number with an absolute value of at most {LARGEST_REWARD:g}, not {given!r:.40}"
        )
    return number


def _json(answer: Answer) -> JSONResponse:
    try:
        return JSONResponse(answer)
    except ValueError:  # JSON cannot represent NaN and infinity
        raise HTTPException(400, "the policy's network returned NaN or infinite numbers for the observation") from None


@contextmanager
def _refused_misfits() -> Iterator[None]:
    try:
        yield
    except SpaceMismatch as error:
        raise HTTPException(400, str(error)) from None


def _as_one(answer: Answer) -> Answer:
    """Replaces each one-element list in an answer with its element."""
    one = {"action": answer["actions"][0], **{key: value for key, value in answer.items() if key != "actions"}}
    return {**one, "details": answer["details"][0]} if "details" in answer else one


class Batches:
    """Queue of requests to a served policy; requests that arrive during a computation form the next batch.

    A request never waits for others to arrive: it is computed at once if the thread is idle, and otherwise in the next
    batch. If a batch fails, its requests are computed one by one, so a bad request does not make the others fail.

    Args:
        decide: Function that answers a batch, called for one batch at a time; must have no side effects if it fails.
        most_rows: Maximum number of observations in a batch of several requests.
    """

    def __init__(self, decide: Callable[[Sequence[Asked]], list[Answer]], most_rows: int) -> None:
        self._decide = decide
        self._most_rows = most_rows
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decisions")
        self._waiting: list[_Waiting] = []
        self._is_computing = False
        self._last_s = float("inf")

    async def answer(self, asked: Asked) -> Answer:
        """Answers a request, in one batch with the other waiting requests."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((asked, waiting))
        if not self._is_computing:
            self._is_computing = True
            loop.call_soon(self._compute, loop)  # after requests that arrived at the same time are queued
        return await waiting

    def close(self) -> None:
        """Ends the thread that computes answers, once it has completed its current batch."""
        self._thread.shutdown()

    def _compute(self, loop: asyncio.AbstractEventLoop) -> None:
        batch = self._taken()
        asked = [one for one, _ in batch]
        if self._last_s < QUICK_S:
            self._finish(loop, batch, self._decided(asked))
        else:
            computed = loop.run_in_executor(self._thread, self._decided, asked)
            computed.add_done_callback(lambda done: self._finish(loop, batch, done.result()))

    def _taken(self) -> list[_Waiting]:
        """Removes the next batch from the queue."""
        number, rows = 0, 0
        for asked, _ in self._waiting:
            rows += asked.num_rows
            if number and rows > self._most_rows:
                break
            number += 1
        batch, self._waiting = self._waiting[:number], self._waiting[number:]
        return batch

    def _decided(self, asked: list[Asked]) -> list[Answer | Exception]:
        begin_s = time.perf_counter()
        try:
            return [*self._decide(asked)]
        except Exception as error:  # from a custom network; the requests are then decided one by one
            return [error] if len(asked) == 1 else [found for one in asked for found in self._decided([one])]
        finally:
            self._last_s = time.perf_counter() - begin_s

    def _finish(self, loop: asyncio.AbstractEventLoop, batch: list[_Waiting], found: list[Answer | Exception]) -> None:
        for (_, waiting), answer in zip(batch, found, strict=True):
            if waiting.cancelled():  # the client has disconnected
                continue
            if isinstance(answer, Exception):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)
        if self._waiting:
            loop.call_soon(self._compute, loop)
        else:
            self._is_computing = False
