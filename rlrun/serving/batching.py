"""Batches of concurrent requests, computed in a thread of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from rlrun.serving.decisions import Answer, Asked

_Waiting = tuple[Asked, "asyncio.Future[Answer]"]


class Batches:
    """Queue of requests: those that arrive while others are being computed make up the next batch.

    A request never waits for others to come: it is computed at once if nothing else is, and otherwise right after.

    Args:
        decide: Answers a batch; runs in one thread, a batch at a time.
        most_rows: Maximum number of observations in a batch of several requests.
    """

    def __init__(self, decide: Callable[[Sequence[Asked]], list[Answer]], most_rows: int) -> None:
        self._decide = decide
        self._most_rows = most_rows
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decisions")
        self._waiting: list[_Waiting] = []
        self._is_computing = False

    async def answer(self, asked: Asked) -> Answer:
        """Answers a request together with others."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((asked, waiting))
        if not self._is_computing:
            self._compute(loop)
        return await waiting

    def close(self) -> None:
        """Ends the thread, after its running batch."""
        self._thread.shutdown()

    def _compute(self, loop: asyncio.AbstractEventLoop) -> None:
        batch = self._taken()
        self._is_computing = True
        computed = loop.run_in_executor(self._thread, self._decide, [asked for asked, _ in batch])
        computed.add_done_callback(lambda done: self._finish(loop, batch, done))

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

    def _finish(
        self, loop: asyncio.AbstractEventLoop, batch: list[_Waiting], done: asyncio.Future[list[Answer]]
    ) -> None:
        self._is_computing = False
        if self._waiting:
            self._compute(loop)
        error = done.exception()
        for number, (_, waiting) in enumerate(batch):
            if waiting.cancelled():  # its client has left
                continue
            if error is not None:
                waiting.set_exception(error)
            else:
                waiting.set_result(done.result()[number])
