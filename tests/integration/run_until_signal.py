"""Runs a spec in a separate process, and sends a signal after a number of results.

Arguments: the spec as JSON, the runs folder, the executor, the number of results, the signal's name, and its target:
"self", "group" (like a terminal), "tree" (all descendants of this process), or the name of a Ray process. For a
shard, the last argument names it, such as 1/4.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import rlrun
from rlrun.engine.messages.errors import RlrunError
from rlrun.experiments.runs.events import RunEvent, TrialEvent


def descendants(root: int) -> list[int]:
    """Returns a process and all its descendants, parents first."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(pid): int(parent) for pid, parent in (line.split() for line in listed.splitlines())}
    found = [root]
    for one in found:
        found += [pid for pid, parent in parents.items() if parent == one]
    return found


def targets(target: str) -> list[int]:
    """Returns the processes that the signal goes to."""
    if target == "self":
        return [os.getpid()]
    found = descendants(os.getpid())[::-1]
    if target == "tree":
        return found
    listed = subprocess.run(["ps", "-C", target, "-o", "pid="], capture_output=True, text=True).stdout
    return [pid for pid in found if str(pid) in listed.split()]


def main(spec: str, runs_dir: str, executor: str, results: str, signal_name: str, target: str, shard: str = "") -> int:
    """Runs the spec; returns the exit code of the error that it raises, or 0 if the signal never came."""
    left = int(results)
    number = signal.Signals[signal_name]
    index, _, count = shard.partition("/")
    numbers = (int(index), int(count)) if shard else None

    def watch(event: RunEvent) -> None:
        nonlocal left
        left -= isinstance(event, TrialEvent) and event.result is not None
        if left == 0:
            left = -1
            if target == "group":
                os.killpg(0, number)
                return
            for pid in targets(target):
                with suppress(ProcessLookupError):  # the list includes `ps` itself, which has ended
                    os.kill(pid, number)

    try:
        rlrun.run(json.loads(spec), runs_dir=runs_dir, executor=executor, shard=numbers, watch=watch)
    except RlrunError as error:
        print(error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
