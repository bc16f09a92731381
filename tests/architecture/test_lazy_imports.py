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
        ["metrics", "apex"],
        ["plan", "ppo"],
        ["plan", "-f", "configs/cartpole/ppo.yaml", "--format", "mermaid"],
        ["plan", "ppo", "--format", "svg"],
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


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a folder with one run of two trials, written by hand."""
    folder = tmp_path_factory.mktemp("runs")
    names = ["000-lr=0.1-seed=0", "001-lr=0.2-seed=0"]
    for number, name in enumerate(names):
        (folder / "pole" / name).mkdir(parents=True)
        record = {"name": name, "status": "TERMINATED", "seed": 0, "params": {"lr": 0.1 * (number + 1)}}
        (folder / "pole" / name / "trial.json").write_text(json.dumps(record))
        rows = [{"env_steps": steps, "time_total_s": 1.0, "episode_return_mean": 1.0} for steps in (100, 200)]
        (folder / "pole" / name / "result.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = {"experiment": "pole", "created": "2026-01-01T00:00:00+00:00", "command": "", "executor": "local"}
    table |= {"import_paths": [], "versions": {}, "trials": names, "format": 1}
    (folder / "pole" / "run.json").write_text(json.dumps(table))
    (folder / "pole" / "spec.yaml").write_text("pole: {algorithm: ppo, env: CartPole-v1}\n")
    return folder


@pytest.mark.parametrize(
    "words",
    [["show", "pole"], ["compare", "pole"], ["plot", "pole"], ["report", "pole", "-o", "pole.html"]],
    ids=" ".join,
)
def test_commands_that_look_at_runs_import_neither_torch_nor_ray(
    words: list[str], runs_folder: Path, tmp_path: Path
) -> None:
    assert packages_after(*words, "--runs-dir", str(runs_folder), cwd=tmp_path) & HEAVY == set()
