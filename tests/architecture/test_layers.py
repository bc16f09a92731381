"""The rooms of the house and the direction of the imports between them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "rlrun"


def contracts() -> dict[str, dict[str, Any]]:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {contract["id"]: contract for contract in data["tool"]["importlinter"]["contracts"]}


def rooms() -> set[str]:
    """Names of the packages and modules directly inside rlrun."""
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    return packages | {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}


def test_imports_go_downwards_and_nothing_imports_the_algorithms() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_room_stands_in_a_layer() -> None:
    layers = contracts()["layers"]["layers"]
    named = {name.strip() for layer in layers for name in layer.split("|")}
    assert named == rooms()
    assert contracts()["layers"]["exhaustive"] is True


def test_the_picture_and_the_table_of_rooms_show_every_folder() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    picture = (ROOT / "docs" / "images" / "rooms.svg").read_text()
    table = (ROOT / "docs" / "architecture.md").read_text().partition("## Rooms")[2]
    assert {name for name in folders if f">{name}/<" not in picture} == set()
    assert {name for name in folders if f"`{name}/`" not in table} == set()


def test_every_room_but_the_algorithms_is_forbidden_to_import_them() -> None:
    contract = contracts()["plugins"]
    assert {name.removeprefix("rlrun.") for name in contract["source_modules"]} == rooms() - {"algorithms"}
    assert contract["forbidden_modules"] == ["rlrun.algorithms"]


def test_no_import_is_excused() -> None:
    for contract in contracts().values():
        assert "ignore_imports" not in contract
        assert "allow_indirect_imports" not in contract
