"""Clients of an external env that request actions as fast as they are answered, in one process and one thread.

They build requests as text, without http.client and json, because they would otherwise take longer than the server that
they measure.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

from benchmarks.peers import ROOT, Measurement

OBSERVATION = [0.012345678, -1.2345678, 0.12345678, -0.23456789]


def pinned() -> None:
    """Pins this process, which is the server, to the first core; `Load` uses the others."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])


def free_port() -> int:
    """Returns a port that is currently free."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Load:
    """Context manager that runs clients in a separate process on the other cores.

    Args:
        work: The work to measure.
        port: Port of the server, which is this process; the clients wait for it.
    """

    def __init__(self, work: Measurement, port: int) -> None:
        words = json.dumps({**work, "port": port, "server": os.getpid()})
        command = [sys.executable, "-m", "benchmarks.external.load", words]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self.measured: Measurement | None = None

    def _read(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            os._exit(1)  # the clients have failed and reported why; do not wait for others
        self.measured = json.loads(line)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._process.kill()
        self._process.wait()


class Connection:
    """Connection of one client, whose episodes request actions together.

    Args:
        port: Port of the server.
        begins: Whether to start episodes before requesting actions, as rlrun's protocol requires.
        episodes: Number of episodes.
    """

    def __init__(self, port: int, begins: bool, episodes: int) -> None:
        self.socket = _connected(port)
        self._seq = 0
        client = self._ask({"verb": "hello", "protocol": "1.0"})["client"] if begins else ""
        messages = []
        for number in range(episodes):
            start = {"verb": "start_episode", "client": client, "seq": number}
            episode = self._ask(start)["episode"] if begins else f"{number:016x}"
            message = {
                "verb": "get_action",
                "episode": episode,
                "seq": "SEQ",
                "observation": OBSERVATION,
                "reward": 1.0,
            }
            messages.append(json.dumps(message))
        text = messages[0] if episodes == 1 else f'{{"messages": [{", ".join(messages)}]}}'
        self._parts = text.split('"SEQ"')
        self._answer = bytearray()

    def send(self) -> None:
        """Requests the next action of each episode."""
        self._post(str(self._seq).join(self._parts))
        self._seq += 1

    def receive(self) -> bool:
        """Reads the available bytes; returns whether the answer is complete."""
        self._answer += self.socket.recv(262_144)
        head, blank, body = self._answer.partition(b"\r\n\r\n")
        if not blank or len(body) < int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0]):
            return False
        if not head.startswith(b"HTTP/1.1 200") or b'"error"' in body:
            raise SystemExit(bytes(self._answer[:500]))
        self._answer.clear()
        return True

    def _post(self, text: str) -> None:
        head = f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n"
        self.socket.sendall((head + text).encode())

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self._post(json.dumps(message))
        self._answer = bytearray()
        while True:
            self._answer += self.socket.recv(65_536)
            if self._answer.endswith(b"}"):
                found: dict[str, Any] = json.loads(self._answer.partition(b"\r\n\r\n")[2])
                return found


def _connected(port: int) -> socket.socket:
    """Connects to a server as soon as it accepts connections."""
    until_s = time.monotonic() + 60.0
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.1)


def main(work: Measurement) -> None:
    """Requests actions until it is killed; prints decisions, seconds, and the server's CPU seconds in the window."""
    cores = sorted(os.sched_getaffinity(os.getppid()) ^ set(range(os.cpu_count() or 1)))
    os.sched_setaffinity(0, cores or [0])
    begins = bool(work["begins"])
    opened = [Connection(work["port"], begins, work["messages"]) for _ in range(work["connections"])]
    selector = selectors.DefaultSelector()
    for connection in opened:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.send()
    warm_s, window_s = work["warm_up_s"], work["window_s"]
    began, first, answered = time.perf_counter(), None, 0
    while True:
        for key, _ in selector.select():
            if key.data.receive():
                answered += 1
                key.data.send()
        now = time.perf_counter()
        if first is None and now - began > warm_s:
            first = now, answered, cpu_s(work["server"])
        elif first is not None and now - first[0] > window_s:
            counts = {"env_steps": (answered - first[1]) * work["messages"], "seconds": now - first[0]}
            print(json.dumps({**counts, "cpu_seconds": cpu_s(work["server"]) - first[2]}), flush=True)
            window_s = float("inf")


def cpu_s(process: int) -> float:
    """CPU seconds that a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
