"""Processes that Ray ends with SIGTERM end at once, without an exception in the code that they run."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

RAYS_HANDLER = """
import os, pickle, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as Ray's handler in its worker processes
class Env:
    def step(self):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(10): pass
        except SystemExit:  # as guards around envs
            print("the env is blamed")
"""
SHELL = """
from rlrun.engine.actors.actor_shell import ActorShell
ActorShell(pickle.dumps(Env), []).ask("step")
"""
TRIAL = """
from rlrun.experiments.tune.trainable import AlgorithmTrainable
AlgorithmTrainable.setup(object.__new__(AlgorithmTrainable), {"exploit": None, "import_paths": []})
Env().step()
"""


@pytest.mark.parametrize("program", [SHELL, TRIAL], ids=["worker", "trial"])
def test_a_process_that_ray_terminates_does_not_blame_the_env(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", RAYS_HANDLER + program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, ""), done.stderr
