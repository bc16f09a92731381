"""The table of foreign names, the defaults of other libraries and the guide agree with the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rlrun.bridges.translation import sb3_settings
from rlrun.bridges.translation.foreign_settings import default_table, defaults_of
from rlrun.bridges.translation.meanings import SettingOrigin, known_settings, meaning_of
from rlrun.bridges.translation.rllib import ELSEWHERE, ENTRY_KEYS
from rlrun.bridges.translation.rllib_settings.conversions import CONVERSIONS as OF_RLLIB
from rlrun.engine.messages.foreign_names import table
from rlrun.engine.settings.registry import algorithm_class, algorithm_names, corresponding_algorithm, known_algorithm

CONVERSIONS = {"rllib": OF_RLLIB, "sb3": sb3_settings.CONVERSIONS}
ROWS: list[dict[str, Any]] = [
    row for written in table()["converted"].values() for row in (written if isinstance(written, list) else [written])
]
SOURCES = [
    SettingOrigin(library, tuple(map(int, version.split("."))), algorithm)
    for library, versions in default_table().items()
    for version in versions
    for algorithm in next(iter(versions.values()))
    if algorithm != "all" and (known_algorithm(algorithm) in algorithm_names() or corresponding_algorithm(algorithm))
]


def test_every_conversion_is_used_by_a_row_and_every_conversion_named_by_a_row_exists() -> None:
    for library, conversions in CONVERSIONS.items():
        assert {row["by"] for row in ROWS if "by" in row and row["library"] == library} == conversions.keys()


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: f"{source.library}-{source.algorithm}-{source.version}")
def test_every_default_of_another_library_has_a_translation(source: SettingOrigin) -> None:
    ours = known_algorithm(source.algorithm)
    ours = ours if ours in algorithm_names() else corresponding_algorithm(source.algorithm)
    has = algorithm_class(ours).Config.has_setting
    for key in defaults_of(source).keys() - set(ELSEWHERE):
        names = (key, key.rpartition(".")[2])
        assert any(meaning_of(name, source, has) for name in names), key


def test_the_guide_for_rllib_files_names_only_existing_keys() -> None:
    guide = (Path(__file__).parents[4] / "docs" / "from_rllib.md").read_text("utf-8")
    listed = guide[guide.index("## RLlib files") :]
    first = [line.split("|")[1] for line in listed.splitlines() if line.startswith("| ")]
    keys = {key for cell in first for key in re.findall(r"`([a-z_]+)[`:]", cell)}
    assert len(keys) >= 10
    assert not keys - known_settings() - set(ELSEWHERE) - set(ENTRY_KEYS)
