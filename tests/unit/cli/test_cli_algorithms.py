"""What `rlrun algorithms` lists."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from rlrun.cli.main import cli
from rlrun.engine.settings import registry


@pytest.fixture
def broken_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package whose entry point names a module that does not exist."""
    folder = tmp_path / "broken-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[rlrun.algorithms]\nbroken = no_such_lab.gone:Gone\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry._entry_points.cache_clear()
    yield
    registry._entry_points.cache_clear()


@pytest.mark.usefixtures("broken_plugin")
def test_a_broken_plugin_does_not_hide_the_other_algorithms(wording) -> None:
    result = CliRunner().invoke(cli, ["algorithms", "--json"])
    assert result.exit_code == 0, result.stderr
    found = {each["name"]: each for each in json.loads(result.stdout)["algorithms"]}
    assert found["ppo"]["class"] == "rlrun.plugin:PPO"
    assert found["td3"]["actions"] == ["bounded Box"]
    assert found["broken"]["class"] is None
    assert found["broken"]["summary"] == wording("no_such_lab.gone")


def test_algorithms_are_listed_by_kind_after_three_recommended_ones(wording) -> None:
    lines = CliRunner().invoke(cli, ["algorithms"]).stdout.splitlines()
    assert lines[2] == wording()
    assert [line.split()[0] for line in lines[3:6]] == ["ppo", "dqn", "sac"]
    kinds = [line.rstrip(":") for line in lines if line.endswith(":")]
    assert kinds == list(registry.BUILT_IN_BY_KIND)


def test_listing_algorithms_imports_none_of_them_and_nothing_slow() -> None:
    listing = (
        "from rlrun.cli.main import cli\nimport sys\ncli(['algorithms'], standalone_mode=False)\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "rlrun.algorithms.catalog" in loaded
    assert (
        loaded & {"numpy", "pydantic", "gymnasium", "torch", "rlrun.algorithms.ppo", "rlrun.engine.algorithm"} == set()
    )


def test_every_algorithm_belongs_to_exactly_one_kind() -> None:
    names = [name for kind in registry.BUILT_IN_BY_KIND.values() for name in kind]
    assert sorted(names) == list(registry.BUILT_IN)


def test_the_envs_command_lists_the_newest_versions_and_some_envs_of_each_family() -> None:
    rows = [line.split() for line in CliRunner().invoke(cli, ["envs"]).stdout.splitlines()]
    ids = [row[0] for row in rows if len(row) > 3]
    assert ids[1:3] == ["Acrobot-v1", "CartPole-v1"]
    assert "CartPole-v0" not in ids
    assert sum(env_id.startswith("ALE/") for env_id in ids) == 12


def test_the_envs_command_with_a_text_lists_all_versions_whose_ids_contain_it() -> None:
    rows = [line.split() for line in CliRunner().invoke(cli, ["envs", "cartpole-v"]).stdout.splitlines()]
    ids = {row[0] for row in rows[1:]}
    assert {"CartPole-v0", "CartPole-v1"} <= ids
    assert all("cartpole-v" in env_id.lower() for env_id in ids)
