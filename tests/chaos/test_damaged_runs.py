"""Runs with truncated, altered, swapped or missing files: commands answer with a message, not with a traceback."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from rlrun.cli.main import cli
from rlrun.engine.messages.errors import ExitCode

DAMAGES = int(os.environ.get("CHAOS_DAMAGES", "1000"))
SPEC = """
small:
  algorithm: ppo
  env: CartPole-v1
  seeds: 2
  stop: {iteration: 3}
  config: {num_envs_per_worker: 1, train_batch_size: 16,
           min_env_steps_per_iteration: 0, minibatch_size: 8, num_epochs: 1, model: {hiddens: [4]}}
  checkpoint: {every: 1}
  evaluation: {every: 2, episodes: 1}
"""
COMMANDS = (
    ("status",),
    ("resume", "--extend", "iteration=4"),
    ("show",),
    ("plot", "--output", "curve.svg"),
    ("report", "--output", "report.html"),
    ("diagnose",),
    ("evaluate", "--episodes", "1"),
    ("runs",),
)
TRIALS = ("000-seed=0", "001-seed=1")

Damage = Callable[[random.Random, Path, list[Path]], None]


def remove(chance: random.Random, file: Path, others: list[Path]) -> None:
    file.unlink()


def empty(chance: random.Random, file: Path, others: list[Path]) -> None:
    file.write_bytes(b"")


def cut(chance: random.Random, file: Path, others: list[Path]) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: chance.randrange(len(data) + 1)])


def flip_a_bit(chance: random.Random, file: Path, others: list[Path]) -> None:
    data = bytearray(file.read_bytes())
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


def fill_with_zeros(chance: random.Random, file: Path, others: list[Path]) -> None:
    data = file.read_bytes()
    kept = chance.randrange(len(data) + 1)
    file.write_bytes(data[:kept] + bytes(len(data) - kept))


def exchange_a_digit(chance: random.Random, file: Path, others: list[Path]) -> None:
    data = bytearray(file.read_bytes())
    digits = [place for place, byte in enumerate(data) if 48 <= byte < 58]
    if digits:
        data[chance.choice(digits)] = chance.randrange(48, 58)
    file.write_bytes(data)


def put_another_in_its_place(chance: random.Random, file: Path, others: list[Path]) -> None:
    file.write_bytes(chance.choice(others).read_bytes())


def put_a_folder_in_its_place(chance: random.Random, file: Path, others: list[Path]) -> None:
    file.unlink()
    file.mkdir()


def put_brackets(chance: random.Random, file: Path, others: list[Path]) -> None:
    file.write_text("[" * 100_000)


KINDS: tuple[Damage, ...] = (
    remove,
    empty,
    cut,
    flip_a_bit,
    fill_with_zeros,
    exchange_a_digit,
    put_another_in_its_place,
    put_a_folder_in_its_place,
    put_brackets,
)


def rlrun(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli, list(map(str, words)))
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with one that is complete."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "small.yaml").write_text(SPEC)
    code, output = rlrun("train", "-f", folder / "small.yaml", "--runs-dir", folder / "runs", "--executor", "local")
    assert code == ExitCode.OK, output
    return folder / "runs"


@pytest.mark.chaos
@pytest.mark.timeout(7200)
def test_commands_on_damaged_runs_report_errors_without_a_traceback(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = 0
    for number in range(DAMAGES):
        chance = random.Random(number)
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        runs = shutil.copytree(trained, tmp_path / "runs")
        files = sorted(path for path in runs.rglob("*") if path.is_file())
        file, damage = chance.choice(files), chance.choice(KINDS)
        damage(chance, file, files)
        command, *options = COMMANDS[number % len(COMMANDS)]
        target = {"runs": [], "evaluate": [f"small/{chance.choice(TRIALS)}"]}.get(command, ["small"])
        words = [command, *target, *options, "--runs-dir", runs]
        code, output = rlrun(*words)
        told = f"damage {number}, {damage.__name__} of {file.relative_to(runs)}, then {words}: {code}\n{output}"
        assert code in set(ExitCode) - {ExitCode.BUG, ExitCode.INTERRUPTED}, told
        assert "Traceback" not in output, told
        refused += code == ExitCode.CHECKPOINT_REFUSED
    assert refused > 0
