"""Measures how many decisions per second an external env gets, with the server on one core.

    python -m benchmarks.external.run [--only single,batched] [--repeats N] [--set window_s=S] [--json FILE]

single   one decision per request: with one client, and with 32 concurrent clients
batched  one client that requests decisions for 32 episodes at once

Clients on the other cores send their next request as soon as they have an answer. rlrun trains PPO with two layers of
64, in batches of 256 decisions per episode. It learns from a batch in one pass of one minibatch, which takes almost no
time, so the rates measure the protocol, acting and recording.

`floor` is Starlette and Uvicorn alone: an endpoint that returns the same bodies without reading them. Rates are
decisions per second, and per second of the server's CPU time, which other processes affect less.
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
        messages: Number of episodes per client, whose decisions are requested together.
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
