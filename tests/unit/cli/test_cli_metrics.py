"""What `rlrun metrics` lists."""

from __future__ import annotations

import json

from click.testing import CliRunner, Result

from rlrun.cli.main import cli


def metrics(*words: str) -> Result:
    return CliRunner().invoke(cli, ["metrics", *words])


def test_a_table_names_each_metric_with_its_unit_and_meaning() -> None:
    done = metrics("apex")
    assert done.exit_code == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["metric", "unit", "what", "it", "says"]
    units = {line.split()[0]: line.split()[1] for line in lines}
    assert units["env_steps"] == "env"
    assert units["minibatches_per_env_step"] == "minibatches"
    assert {"learner/td_error", "replay/gigabytes", "evaluation/episode_return_mean"} <= set(units)


def test_scripts_read_the_same_as_json() -> None:
    found = json.loads(metrics("a3c", "--json").stdout)
    assert all(set(metric) == {"name", "unit", "meaning"} for metric in found)
    names = [metric["name"] for metric in found]
    assert len(set(names)) == len(names)
    assert "gradient_share/worker_<index>" in names
    assert names == [line.split()[0] for line in metrics("a3c").stdout.splitlines()[1:]]


def test_an_unknown_algorithm_gets_the_nearest() -> None:
    done = metrics("pppo")
    assert done.exit_code == 2
    assert "did you mean 'ppo'?" in done.stderr
