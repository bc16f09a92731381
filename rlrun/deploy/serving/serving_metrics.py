"""Counters and latencies of a server, in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

import numpy as np

KEPT_LATENCIES = 10_000
"""Number of newest requests of each path over which latency quantiles are computed."""

_QUANTILES = (0.5, 0.99)


class ServingMetrics:
    """Counts of requests, decisions and reloads, and latencies of answers by path.

    Attributes:
        decisions: Number of answered observations.
        reloads: Number of successful policy reloads.
        failed_reloads: Number of failed policy reloads.
        is_reload_failing: Whether the last reload failed.
    """

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._latencies: dict[str, deque[float]] = {}
        self._sums: Counter[str] = Counter()
        self.decisions = 0
        self.reloads = 0
        self.failed_reloads = 0
        self.is_reload_failing = False

    def count(self, path: str, status: int, seconds: float) -> None:
        """Counts an answered request.

        Args:
            path: Path of the request.
            status: HTTP status of the answer.
            seconds: Seconds from the request's arrival to its answer.
        """
        self._requests[path, status] += 1
        if path not in self._latencies:
            self._latencies[path] = deque(maxlen=KEPT_LATENCIES)
        self._latencies[path].append(seconds)
        self._sums[path] += seconds  # type: ignore[assignment]  # a Counter of floats

    def text(self, gauges: Mapping[str, float]) -> str:
        """Formats all metrics as text for Prometheus.

        Args:
            gauges: Further metrics: current values by name, such as the number of open sessions.
        """
        lines = ["# TYPE rlrun_requests_total counter"]
        for (path, status), number in sorted(self._requests.items()):
            lines.append(f'rlrun_requests_total{{path="{path}",status="{status}"}} {number}')
        lines.append("# TYPE rlrun_request_seconds summary")
        for path, latencies in sorted(self._latencies.items()):
            for quantile, seconds in zip(_QUANTILES, np.quantile(latencies, _QUANTILES), strict=True):
                lines.append(f'rlrun_request_seconds{{path="{path}",quantile="{quantile}"}} {seconds:.6f}')
            lines.append(f'rlrun_request_seconds_sum{{path="{path}"}} {self._sums[path]:.6f}')
            number = sum(count for (own, _), count in self._requests.items() if own == path)
            lines.append(f'rlrun_request_seconds_count{{path="{path}"}} {number}')
        for name in ("decisions", "reloads", "failed_reloads"):
            lines += [f"# TYPE rlrun_{name}_total counter", f"rlrun_{name}_total {vars(self)[name]}"]
        for name, value in gauges.items():
            lines += [f"# TYPE rlrun_{name} gauge", f"rlrun_{name} {value:g}"]
        return "\n".join([*lines, ""])
