"""A joined cluster's head only counts as lost once its GCS has not answered for long enough."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rlrun.experiments.cluster.gcs_watch import GcsWatch, Silence

SHORTEST_S = 1e-9
"""A limit that one probe cannot reach, because the silence begins at its end, but that any second probe exceeds."""


@contextmanager
def answering(port: int = 0) -> Iterator[int]:
    """A process that answers all messages; yields its port."""
    with socket.create_server(("127.0.0.1", port)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1)
                    connection.sendall(b"\0")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_head_that_answers_again_within_the_limit_does_not_count_as_lost() -> None:
    with answering() as port:
        silence = Silence("127.0.0.1", port, SHORTEST_S)
        assert not silence.is_too_long()
    assert not silence.is_too_long()
    with answering(port):
        assert not silence.is_too_long()
    assert not silence.is_too_long()
    assert silence.is_too_long()


def test_a_head_that_is_silent_for_less_than_the_limit_does_not_count_as_lost() -> None:
    with answering() as port:
        pass
    silence = Silence("127.0.0.1", port, limit_s=1e9)
    assert [silence.is_too_long() for _ in range(3)] == [False] * 3


def test_the_loss_of_a_head_is_reported_only_once() -> None:
    reported = threading.Semaphore(0)
    watch = GcsWatch(lambda: True, 0.0, reported.release)
    assert reported.acquire(timeout=600)
    watch.close()
    assert not reported.acquire(blocking=False)


def test_a_head_that_ends_after_the_watch_was_closed_is_not_reported() -> None:
    looks, lost = threading.Semaphore(0), threading.Event()

    def is_lost() -> bool:
        looks.release()
        return lost.is_set()

    reported = threading.Event()
    watch = GcsWatch(is_lost, 0.0, reported.set)
    assert looks.acquire(timeout=600)
    watch.close()
    lost.set()
    assert not reported.is_set()
