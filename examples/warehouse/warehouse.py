"""A warehouse as a separate program: a robot fetches orders, and asks a policy over HTTP where to drive.

The program needs the standard library alone, and the client next to it:

    rlrun client --print > rlrun_client.py
    python warehouse.py --address http://127.0.0.1:9900
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

SIZE = 5
"""Rows and columns of the floor."""

MOST_STEPS = 60
"""Steps of a shift, after which the robot is called back."""

MOVES = {0: (-1, 0), 1: (1, 0), 2: (0, -1), 3: (0, 1)}


class Warehouse:
    """A floor of shelves, with one order at a time; the packing table is in the corner (0, 0).

    Args:
        seed: Seed of the orders.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.delivered = 0

    def begin_shift(self) -> list[float]:
        """Begins a shift; returns what the robot sees."""
        self.delivered = self._steps = 0
        self._robot = (SIZE // 2, SIZE // 2)
        self._carries = False
        self._next_order()
        return self._seen()

    def drive(self, move: int) -> tuple[list[float], float, bool]:
        """Drives one cell; returns what the robot sees, its reward, and whether the shift is over."""
        row, column = (at + by for at, by in zip(self._robot, MOVES[move]))  # noqa: B905 (Python 3.7)
        reward = -0.05
        if 0 <= row < SIZE and 0 <= column < SIZE:
            self._robot = (row, column)
        if not self._carries and self._robot == self._shelf:
            self._carries, reward = True, 0.5
        elif self._carries and self._robot == (0, 0):
            self._carries, reward = False, 1.0
            self.delivered += 1
            self._next_order()
        self._steps += 1
        return self._seen(), reward, self._steps == MOST_STEPS

    def _next_order(self) -> None:
        self._shelf = (self._random.randrange(1, SIZE), self._random.randrange(1, SIZE))

    def _seen(self) -> list[float]:
        """The robot's place, the way to its goal, and whether it carries something, each within [-1, 1]."""
        goal = (0, 0) if self._carries else self._shelf
        way = [(to - at) / SIZE for to, at in zip(goal, self._robot)]  # noqa: B905 (Python 3.7)
        return [at / SIZE for at in self._robot] + way + [float(self._carries)]


def work(client: Any, unknown: type[Exception], seed: int, shifts: int) -> None:
    """Runs shifts, each an episode; one that the server does not know any more begins again.

    Args:
        client: A `Client` of rlrun_client.py.
        unknown: Its `EpisodeUnknown`.
        seed: Seed of the orders.
        shifts: Number of shifts; 0 for no end.
    """
    warehouse, done = Warehouse(seed), 0
    while not shifts or done < shifts:
        episode, seen, over = client.start_episode(), warehouse.begin_shift(), False
        try:
            while not over:
                seen, reward, over = warehouse.drive(client.get_action(episode, seen))
                client.log_returns(episode, reward)
            # Truncated: the warehouse keeps running, so the last state still has a value.
            client.end_episode(episode, seen, truncated=True, info={"delivered": warehouse.delivered})
        except unknown:
            continue
        done += 1


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--address", default="http://127.0.0.1:9900")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shifts", type=int, default=0, help="0 for no end")
    given = parser.parse_args()
    if not Path(__file__).with_name("rlrun_client.py").exists():
        parser.error("copy the client first: rlrun client --print > rlrun_client.py")
    from rlrun_client import Client, EpisodeUnknown  # type: ignore[import-not-found]

    work(Client(given.address), EpisodeUnknown, given.seed, given.shifts)


if __name__ == "__main__":
    main()
