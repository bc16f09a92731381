"""The ``rlrun`` command, also as ``python -m rlrun``; it answers signals while its files are still imported."""

from __future__ import annotations

import os
import sys

from rlrun.signals import listen


def run() -> None:
    """Imports the command line and runs it; SIGTERM and SIGHUP end it as Ctrl-C does."""
    try:
        listen()
        from rlrun.cli.main import main

        main()
    except KeyboardInterrupt:  # before the command line could answer it itself
        os.write(2, b"\nInterrupted.\n")
        sys.exit(130)


if __name__ == "__main__":
    run()
