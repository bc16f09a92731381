"""Measures how many decisions of an external env are answered in a second, with the server on one core.

    python -m benchmarks.external.run [--only single,batched] [--repeats N] [--set window_s=S] [--json FILE]

single   a decision in each request: of one client, and of 32 that ask at the same time
batched  one client that asks for 32 episodes in one request

Clients on the other cores send the next request as soon as the last one is answered. rlrun trains PPO with two layers
of 64, whose batches have 256 decisions of each episode; a batch is learned from in one pass of one minibatch, which is
next to nothing here. So the rates are those of the protocol, acting and recording.

`floor` is Starlette and Uvicorn alone: an endpoint that returns the same bodies as they are, unread. Rates are
decisions per second, and per second of the server's CPU time, which other processes change less.
"""

from __future__ import annotations

from benchmarks.peers import Measurement, Side, Work, benchmark

CLOCKS: Measurement = {"warm_up_s": 2.0, "window_s": 8.0}


def work(part: str, title: str, connections: int, messages: int) -> Work:
    """Returns a piece of work for the floor and rlrun.

    Args:
        part: See `Work`.
        title: See `Work`.
        connections: Number of clients.
        messages: Number of episodes of each, which ask in one request.
    """
    order = {**CLOCKS, "connections": connections, "messages": messages}
    return Work(part, title, order, (Side("floor", "external.echo"), Side("rlrun", "external.rlrun")))


WORKS = (
    work("single", "one client, one decision a request", 1, 1),
    work("single", "32 clients, one decision a request", 32, 1),
    work("batched", "one client, 32 decisions a request", 1, 32),
)


if __name__ == "__main__":
    benchmark(str(__doc__), WORKS, ("starlette", "uvicorn", "numpy"))
