"""Clock for training with any framework: a mark after each update, and the CPU time of acting and updating."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.peers import Measurement, between, mark
from benchmarks.tensors.env import SPENT


class Marks:
    """Measures iterations and their parts; an iteration ends with the framework's call that updates.

    Attributes:
        spent: CPU seconds in `acting_s` and `updates_s` so far.
        marks: The clocks after each update, with the values of `spent` at that time.
    """

    def __init__(self) -> None:
        self.spent = {"acting_s": 0.0, "updates_s": 0.0}
        self.marks: list[Measurement] = []

    def timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that adds its CPU time to a part; a function that updates also ends an iteration."""

        def measured(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            result = call(*args, **kwargs)
            self.spent[part] += time.process_time() - began
            if part == "updates_s":
                self.marks.append(mark(time.process_time, **self.spent, **SPENT))
            return result

        return measured

    def found(self, work: Measurement, episode_return: float) -> Measurement:
        """Returns the measurements of the measured iterations."""
        first, last = work["warm_up"] - 1, work["warm_up"] + work["iterations"] - 1
        passed = between(self.marks[first], self.marks[last])
        parts = {"stepping": passed["env_s"], "acting": passed["acting_s"], "updating": passed["updates_s"]}
        parts["everything else"] = passed["cpu_seconds"] - sum(parts.values())
        steps = work["iterations"] * work["num_envs"] * work["fragment"]
        return {
            "env_steps": steps,
            "seconds": passed["seconds"],
            "cpu_seconds": passed["cpu_seconds"],
            "shares": {name: spent / passed["cpu_seconds"] for name, spent in parts.items()},
            "episode_return": episode_return,
        }
