"""What must not be imported: torch and ray by the commands that only look, heavy packages by the help."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rlrun.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
LOOK = """
import json, sys
from click.testing import CliRunner
from rlrun.cli.main import cli
result = CliRunner().invoke(cli, sys.argv[1:])
sys.stderr.write(result.stderr)
print(json.dumps({"exit_code": result.exit_code, "packages": sorted({name.partition(".")[0] for name in sys.modules})}))
"""
HEAVY = {"torch", "ray"}


def packages_after(*words: str, cwd: Path = ROOT) -> set[str]:
    """Runs a command in a fresh process; returns the packages that it has imported."""
    done = subprocess.run([sys.executable, "-c", LOOK, *words], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["exit_code"] == 0, done.stderr
    return set(found["packages"])


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in COMMANDS), ["completion", "zsh"]])
def test_help_imports_click_and_nothing_heavy(words: list[str]) -> None:
    assert packages_after(*words) & {*HEAVY, "numpy", "gymnasium", "pydantic", "yaml", "rich"} == set()


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["validate", "configs/cartpole/ppo.yaml"],
        ["config", "ppo"],
        ["plan", "ppo"],
        ["plan", "-f", "configs/cartpole/ppo.yaml", "--mermaid"],
        ["schema"],
        ["algorithms"],
        ["envs", "CartPole"],
        ["runs"],
        ["train", "-f", "configs/cartpole/ppo.yaml", "--dry-run"],
    ],
    ids=" ".join,
)
def test_commands_that_only_look_import_neither_torch_nor_ray(words: list[str]) -> None:
    assert packages_after(*words) & HEAVY == set()
