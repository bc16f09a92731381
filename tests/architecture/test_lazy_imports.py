"""Commands that only read do not import torch or ray, and help does not import heavy packages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rlrun.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
LOOK = """
import json, sys
from click.testing import CliRunner
from rlrun.cli.main import cli
for words in json.loads(sys.argv[1]):
    result = CliRunner().invoke(cli, words)
    sys.stderr.write(result.stderr)
    packages = sorted({name.partition(".")[0] for name in sys.modules})
    print(json.dumps({"exit_code": result.exit_code, "packages": packages}))
"""
HEAVY = {"torch", "ray"}
HELPS = [["--help"], *([name, "--help"] for name in COMMANDS), ["completion", "zsh"]]
LOOKS = [
    ["--version"],
    ["validate", "configs/cartpole/ppo.yaml"],
    ["config", "ppo"],
    ["metrics", "apex"],
    ["plan", "ppo"],
    ["plan", "-f", "configs/cartpole/ppo.yaml", "--format", "mermaid"],
    ["schema"],
    ["algorithms"],
    ["envs", "CartPole"],
    ["runs"],
    ["train", "-f", "configs/cartpole/ppo.yaml", "--dry-run"],
]
LOOKS_AT_RUNS = [["show", "pole"], ["compare", "pole"], ["plot", "pole"], ["report", "pole", "-o", "pole.html"]]

Packages = dict[str, set[str]]
"""The packages that a process has imported after each of its commands, by command line."""


def packages_after_each(commands: Sequence[Sequence[str]], *more: str, cwd: Path = ROOT) -> Packages:
    """Runs commands one after another in one new process; each one also has what earlier ones imported."""
    words = [[*command, *more] for command in commands]
    done = subprocess.run([sys.executable, "-c", LOOK, json.dumps(words)], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["exit_code"] for one in found] == [0] * len(commands), done.stderr
    return {" ".join(command): set(one["packages"]) for command, one in zip(commands, found, strict=True)}


@pytest.fixture(scope="module")
def after_helps() -> Packages:
    return packages_after_each(HELPS)


@pytest.mark.parametrize("words", HELPS, ids=" ".join)
def test_help_imports_no_heavy_packages(words: list[str], after_helps: Packages) -> None:
    assert after_helps[" ".join(words)] & {*HEAVY, "numpy", "gymnasium", "pydantic", "yaml", "rich"} == set()


@pytest.fixture(scope="module")
def after_looks() -> Packages:
    return packages_after_each(LOOKS)


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_read_only_commands_import_neither_torch_nor_ray(words: list[str], after_looks: Packages) -> None:
    assert after_looks[" ".join(words)] & HEAVY == set()


@pytest.fixture(scope="module")
def after_looks_at_runs(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """Packages after commands that read a folder with one run of two trials, written by hand."""
    folder = tmp_path_factory.mktemp("runs")
    names = ["000-lr=0.1-seed=0", "001-lr=0.2-seed=0"]
    for number, name in enumerate(names):
        (folder / "pole" / name).mkdir(parents=True)
        record = {"name": name, "status": "TERMINATED", "seed": 0, "params": {"lr": 0.1 * (number + 1)}}
        (folder / "pole" / name / "trial.json").write_text(json.dumps(record))
        (folder / "pole" / name / "spec.yaml").write_text("algorithm: ppo\n")
        rows = [{"iteration": n, "env_steps": 100 * n, "time_total_s": 1.0, "episode_return_mean": 1.0} for n in (1, 2)]
        (folder / "pole" / name / "result.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = {"experiment": "pole", "created": "2026-01-01T00:00:00+00:00", "command": "", "executor": "local"}
    table |= {"import_paths": [], "versions": {}, "trials": names, "format": 1}
    (folder / "pole" / "run.json").write_text(json.dumps(table))
    (folder / "pole" / "spec.yaml").write_text("pole: {algorithm: ppo, env: CartPole-v1}\n")
    cwd = tmp_path_factory.mktemp("cwd")
    return packages_after_each(LOOKS_AT_RUNS, "--runs-dir", str(folder), cwd=cwd)


@pytest.mark.parametrize("words", LOOKS_AT_RUNS, ids=" ".join)
def test_commands_that_read_runs_import_neither_torch_nor_ray(words: list[str], after_looks_at_runs: Packages) -> None:
    assert after_looks_at_runs[" ".join(words)] & HEAVY == set()


def test_a_rollout_worker_without_an_external_env_does_not_import_the_server() -> None:
    code = "import sys, rlrun.engine.rollout.rollout_worker; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"asyncio", "ssl", "rlrun.engine.external.server", "torch", "ray"} & set(done.stdout.splitlines())
