"""Counts of a fragment's requests to an inference server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields


@dataclass(slots=True)
class Served:
    """Counts and times of the requests to an inference server for one or several fragments.

    Attributes:
        requests: Number of requests.
        rows: Number of rows in the forward passes that served the requests, summed over the requests.
        most_rows: Number of rows in the largest of these passes.
        queue: Requests that were waiting when the passes began, summed over the requests.
        queue_s: Seconds for which requests waited for their passes.
        compute_s: Seconds of the passes.
        round_trip_s: Seconds that requests and answers spent in transit: the round trips without waiting and computing.
        lost_steps: Steps of unfinished fragments that were lost with a worker.
    """

    requests: int = 0
    rows: int = 0
    most_rows: int = 0
    queue: int = 0
    queue_s: float = 0.0
    compute_s: float = 0.0
    round_trip_s: float = 0.0
    lost_steps: int = 0

    def add(self, *, rows: int, queue: int, queue_s: float, compute_s: float, waited_s: float, lost_steps: int) -> None:
        """Adds one request, which was answered after `waited_s` seconds."""
        self.requests += 1
        self.rows += rows
        self.most_rows = max(self.most_rows, rows)
        self.queue += queue
        self.queue_s += queue_s
        self.compute_s += compute_s
        self.round_trip_s += max(waited_s - queue_s - compute_s, 0.0)
        self.lost_steps += lost_steps


def merged(parts: Sequence[Served]) -> Served | None:
    """Returns the total counts of several groups of envs or fragments; None if there are none."""
    if not parts:
        return None
    sums = {each.name: sum(getattr(part, each.name) for part in parts) for each in fields(Served)}
    return Served(**{**sums, "most_rows": max(part.most_rows for part in parts)})
