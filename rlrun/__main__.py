"""The ``rlrun`` command, also as ``python -m rlrun``; signals are handled even while modules are being imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from rlrun.engine.processes.signals import listen

RUNS_TRIALS = ("train", "resume", "regress")
"""Commands that run trials. For these, exit code 0 means that all trials are complete, so a silent end of the process
is an error."""

RESTARTED = ("train", "resume")
"""Commands whose process is restarted after it dies, up to `failure.driver_restarts` times."""


def run() -> None:
    """Runs the command line interface; SIGTERM and SIGHUP interrupt it as Ctrl-C does."""
    announce: Callable[[int], object] = _announce_nothing
    try:
        try:
            listen()
            if sys.platform == "linux" and sys.argv[1:2] and sys.argv[1] in RUNS_TRIALS:
                announce = _continue_in_child()
            from rlrun.cli.main import main

            main()
        except KeyboardInterrupt:  # before the command line can handle it itself
            os.write(2, b"\nInterrupted.\n")
            sys.exit(130)
    except SystemExit as error:
        announce(error.code if isinstance(error.code, int) else int(error.code is not None))
        raise
    except BaseException:
        announce(1)
        raise


def _announce_nothing(exit_code: int) -> None:
    """Does nothing: without a waiting parent, no process reads the exit code in advance."""


def _continue_in_child() -> Callable[[int], object]:
    """Continues in a forked child process; returns a function that reports the exit code to the parent."""
    from rlrun.engine.processes.waiting_parent import UnexpectedEnd, continue_in_child

    try:
        announce = continue_in_child(restarts=sys.argv[1] in RESTARTED)
    except UnexpectedEnd as end:
        from rlrun.cli.exits import report_unexpected_end

        report_unexpected_end(end)
    from rlrun.engine.processes.process_end import listeners

    listeners.append(lambda error: announce(error.exit_code))
    return announce


if __name__ == "__main__":
    run()
