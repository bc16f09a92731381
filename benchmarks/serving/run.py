"""Measures latencies of `rlrun serve` at a steady rate of requests, with the server on one core.

    python -m benchmarks.serving.run [--rate 500] [--seconds 5] [--rounds 5] [--json FILE]

The policy is PPO's of CartPole-v1 with two layers of 64, untrained. Clients on the other cores send single
observations at fixed times over kept connections, whether or not earlier ones are answered; a latency is counted from
the time at which its request was due. The table has the quantiles of each round: on a shared machine the best round
says what the server takes, the others what its neighbours take.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks.peers import parser_of, print_row, write_json
from rlrun.algorithms.ppo import PPO
from rlrun.training.training import Training

CONNECTIONS = 16
QUANTILES = (0.5, 0.9, 0.99)


def main() -> None:
    """Prints a row for each round: requests per second, and quantiles of latencies in milliseconds."""
    parser = parser_of(str(__doc__))
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
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
                print_row("round", "requests/s", *(f"p{100 * quantile:g} ms" for quantile in QUANTILES))
                load(port, asked.rate, 1.0)
                for number in range(asked.rounds):
                    found.append(load(port, asked.rate, asked.seconds))
                    print_row(str(number + 1), *(f"{value:.2f}" for value in found[-1].values()))
            finally:
                server.terminate()
    write_json(asked.json, found)


def load(port: int, rate: float, seconds: float) -> dict[str, float]:
    """Sends requests at a rate, and returns the answered ones per second and quantiles of their latencies."""
    begin_s = time.perf_counter() + 0.1
    due = begin_s + np.arange(int(rate * seconds)) / rate
    parts: list[list[float]] = [[] for _ in range(CONNECTIONS)]
    threads = [
        threading.Thread(target=ask, args=(port, due[number::CONNECTIONS], part)) for number, part in enumerate(parts)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    latencies = np.concatenate(parts)
    took_s = time.perf_counter() - begin_s
    values = np.quantile(latencies, QUANTILES) * 1e3
    return {"requests_per_s": len(latencies) / took_s, **dict(zip(map(str, QUANTILES), values.tolist(), strict=True))}


def ask(port: int, due: np.ndarray[tuple[int], np.dtype[np.float64]], latencies: list[float]) -> None:
    """Sends requests at given times over one connection, and adds their latencies in seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    body = json.dumps({"observation": [0.01, -0.02, 0.03, 0.04]})
    for due_s in due.tolist():
        time.sleep(max(0.0, due_s - time.perf_counter()))
        connection.request("POST", "/act", body)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
        latencies.append(time.perf_counter() - due_s)
    connection.close()


if __name__ == "__main__":
    main()
