"""What `rlrun metrics` lists."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rlrun.cli.main import cli


def metrics(*words: str) -> Result:
    return CliRunner().invoke(cli, ["metrics", *words])


def test_the_table_of_metrics_gives_the_unit_and_meaning_of_each() -> None:
    done = metrics("apex")
    assert done.exit_code == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["metric", "unit", "better", "meaning"]
    units = {line.split()[0]: line.split()[1] for line in lines}
    assert "lower" in next(line for line in lines if line.startswith("learner/td_error"))
    assert units["env_steps"] == "env"
    assert units["minibatches_per_env_step"] == "minibatches"
    assert {"learner/td_error", "replay/gigabytes", "evaluation/episode_return_mean"} <= set(units)


def test_json_lists_the_same_metrics_as_the_table() -> None:
    (experiment,) = json.loads(metrics("a3c", "--json").stdout)["experiments"]
    found = experiment["metrics"]
    assert experiment["name"] == "a3c"
    assert all(set(metric) == {"name", "unit", "meaning", "mode"} for metric in found)
    names = [metric["name"] for metric in found]
    assert len(set(names)) == len(names)
    assert "gradient_share/worker_<index>" in names
    assert names == [line.split()[0] for line in metrics("a3c").stdout.splitlines()[1:]]


def test_each_experiment_of_a_spec_has_a_table_under_its_name(tmp_path: Path) -> None:
    spec = tmp_path / "two.yaml"
    entry = "{algorithm: %s, env: CartPole-v1, stop: {env_steps: 1}}"
    spec.write_text(f"first: {entry % 'ppo'}\nsecond: {entry % 'dqn'}\n")
    done = metrics("-f", str(spec))
    assert done.exit_code == 0, done.stderr
    first, second = done.stdout.split("\n\n")
    assert [text.splitlines()[0] for text in (first, second)] == ["# first", "# second"]
    assert ["learner/kl" in text for text in (first, second)] == [True, False]
    found = json.loads(metrics("-f", str(spec), "--json").stdout)["experiments"]
    assert [each["name"] for each in found] == ["first", "second"]
    assert "# " not in metrics("ppo").stdout


def test_an_unknown_algorithm_is_refused_with_the_closest_name(wording) -> None:
    done = metrics("pppo")
    assert done.exit_code == 2
    assert done.stderr == wording("ppo")


@pytest.mark.parametrize("command", ["config", "metrics", "plan"])
def test_a_custom_algorithm_defined_in_the_current_folder_is_found(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    Path(f"lab_{command}.py").write_text("from rlrun.algorithms.ppo import PPO\n\nclass Mine(PPO):\n    pass\n")
    done = CliRunner().invoke(cli, [command, f"lab_{command}:Mine"])
    assert done.exit_code == 0, done.stderr
