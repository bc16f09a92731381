"""Batches of concurrent requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from rlrun.deploy.serving.decisions import Answer, Asked

QUICK_S = 0.001
"""Seconds of a computation below which the next one is made in the thread of the requests.

To hand it to another thread would take longer. A slower computation would keep health checks waiting.
"""

_Waiting = tuple[Asked, "asyncio.Future[Answer]"]


class Batches:
    """Queue of requests: those that arrive while others are being computed make up the next batch.

    A request never waits for others to come: it is computed at once if nothing else is, and otherwise right after. If a
    batch fails, its requests are computed one by one, so that a request fails by its own fault alone.

    Args:
        decide: Answers a batch; called for one batch at a time. An error has no effects.
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
        """Answers a request together with others."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((asked, waiting))
        if not self._is_computing:
            self._is_computing = True
            loop.call_soon(self._compute, loop)  # after the requests that have arrived at the same time
        return await waiting

    def close(self) -> None:
        """Ends the thread, after its running batch."""
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
        except Exception as error:  # of a custom network, which its request raises again
            return [error] if len(asked) == 1 else [found for one in asked for found in self._decided([one])]
        finally:
            self._last_s = time.perf_counter() - begin_s

    def _finish(self, loop: asyncio.AbstractEventLoop, batch: list[_Waiting], found: list[Answer | Exception]) -> None:
        for (_, waiting), answer in zip(batch, found, strict=True):
            if waiting.cancelled():  # its client has left
                continue
            if isinstance(answer, Exception):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)
        if self._waiting:
            loop.call_soon(self._compute, loop)
        else:
            self._is_computing = False
