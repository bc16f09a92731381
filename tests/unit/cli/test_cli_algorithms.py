"""What `rlrun algorithms` lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from rlrun.cli.main import cli
from rlrun.engine.settings import registry


@pytest.fixture
def broken_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package whose entry point names a module that is not there."""
    folder = tmp_path / "broken-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[rlrun.algorithms]\nbroken = no_such_lab.gone:Gone\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry._entry_points.cache_clear()
    yield
    registry._entry_points.cache_clear()


@pytest.mark.usefixtures("broken_plugin")
def test_a_broken_plugin_does_not_hide_the_other_algorithms() -> None:
    result = CliRunner().invoke(cli, ["algorithms", "--json"])
    assert result.exit_code == 0, result.stderr
    found = {each["name"]: each for each in json.loads(result.stdout)["algorithms"]}
    assert found["ppo"]["class"] == "rlrun.algorithms.ppo:PPO"
    assert found["td3"]["actions"] == ["bounded Box"]
    assert found["broken"]["class"] is None
    assert found["broken"]["summary"].startswith(
        "cannot be used: the algorithm's module 'no_such_lab.gone' is not found"
    )
