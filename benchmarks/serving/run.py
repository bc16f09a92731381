"""Measures the latencies of `rlrun serve` at a fixed request rate, with the server on one core.

    python -m benchmarks.serving.run [--rate 500] [--seconds 5] [--rounds 5] [--json FILE]

The policy is PPO's for CartPole-v1, with two layers of 64 and without training. Clients on the other cores send single
observations at fixed times over persistent connections, whether or not earlier requests have been answered; latency
counts from the time at which a request was due. The table shows the quantiles of each round, and the server's CPU time
per request. On a shared machine, the best round shows the server's own latency; the others include that of other work.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks.peers import parser_of, print_row, write_json
from rlrun.algorithms.ppo import PPO
from rlrun.engine.training.training import Training

CONNECTIONS = 16
QUANTILES = (0.5, 0.9, 0.99)


def main() -> None:
    """Prints a row for each round: requests per second, and latency quantiles in milliseconds."""
    parser = parser_of(str(__doc__))
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        with Training("CartPole-v1", PPO(PPO.Config.parse({"model": {"hiddens": [64, 64]}, "compile": False}))) as made:
            checkpoint = made.save(Path(folder) / "checkpoint")
        words = [sys.executable, "-m", "rlrun", "serve", str(checkpoint), "--port", "0"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                port = int(server.stdout.readline().split()[0].rpartition(":")[2])
                for thread in os.listdir(f"/proc/{server.pid}/task"):
                    os.sched_setaffinity(int(thread), cores[:1])
                os.sched_setaffinity(0, cores[1:] or cores)
                print_row("round", "requests/s", *(f"p{100 * quantile:g} ms" for quantile in QUANTILES), "server ms")
                load(port, options.rate, 1.0)
                for number in range(options.rounds):
                    before_s = cpu_s(server.pid)
                    measured = load(port, options.rate, options.seconds)
                    measured["server_ms"] = 1e3 * (cpu_s(server.pid) - before_s) / int(options.rate * options.seconds)
                    found.append(measured)
                    print_row(str(number + 1), *(f"{value:.2f}" for value in measured.values()))
            finally:
                server.terminate()
    write_json(options.json, found)


def cpu_s(process: int) -> float:
    """CPU seconds that a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(port: int, rate: float, seconds: float) -> dict[str, float]:
    """Sends requests at a rate; returns the number of answers per second, and latency quantiles."""
    with ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CONNECTIONS)]
        begin_s = time.perf_counter() + 0.1
        latencies = asked(idle, begin_s + np.arange(int(rate * seconds)) / rate)
        took_s = time.perf_counter() - begin_s
    values = np.quantile(latencies, QUANTILES) * 1e3
    return {"requests_per_s": len(latencies) / took_s, **dict(zip(map(str, QUANTILES), values.tolist(), strict=True))}


def asked(idle: list[socket.socket], due: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    """Sends requests at given times over idle connections, and returns their latencies in seconds.

    It avoids http.client and threads, because the clients would otherwise take longer than the server.
    """
    body = json.dumps({"observation": [0.01, -0.02, 0.03, 0.04]})
    request = f"POST /act HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    waiting, selector = list(reversed(due.tolist())), selectors.DefaultSelector()
    latencies: list[float] = []
    while len(latencies) < len(due):
        while waiting and idle and waiting[-1] <= time.perf_counter():
            connection = idle.pop()
            connection.sendall(request)
            selector.register(connection, selectors.EVENT_READ, (waiting.pop(), bytearray()))
        pause_s = max(0.0, waiting[-1] - time.perf_counter()) if waiting and idle else None
        for key, _ in selector.select(pause_s):
            assert isinstance(key.fileobj, socket.socket)
            due_s, answer = key.data
            answer += key.fileobj.recv(65536)
            if answer.endswith(b"}"):
                latencies.append(time.perf_counter() - due_s)
                assert answer.startswith(b"HTTP/1.1 200"), bytes(answer)
                selector.unregister(key.fileobj)
                idle.append(key.fileobj)
    return latencies


if __name__ == "__main__":
    main()
