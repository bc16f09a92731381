"""How many files one must read to follow something from start to end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

RUN_FILES = """
import sys
from types import FrameType
from rlrun.cli.main import cli

def while_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(sys.argv[1]):
            return True
        frame = frame.f_back
    return False

def follow(frame: FrameType, event: str, argument: object) -> None:
    file = frame.f_code.co_filename
    if event == "call" and file.startswith(sys.argv[1]) and file not in files and not while_importing(frame):
        files.add(file)

files: set[str] = set()
sys.setprofile(follow)
cli(sys.argv[2:], standalone_mode=False)
sys.setprofile(None)
print(*sorted(files), sep="\\n", file=sys.stderr)
"""
"""Runs a command, and prints the files in a folder whose functions it called, without those called by imports."""


def test_checking_a_spec_runs_code_from_at_most_45_files() -> None:
    words = [str(ROOT / "rlrun"), "validate", "configs/cartpole/ppo.yaml"]
    done = subprocess.run([sys.executable, "-c", RUN_FILES, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    files = done.stderr.splitlines()
    assert str(ROOT / "rlrun/experiments/spec/entry.py") in files
    assert len(files) <= 45, done.stderr
