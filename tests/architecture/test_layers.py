"""The districts of the package, the rooms in them, and the direction of the imports."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scripts.districts import PICTURE, picture

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "rlrun"
BY_NAME = {"algorithms", "bridges", "exact", "toys"}


def contracts() -> dict[str, dict[str, Any]]:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {contract["id"]: contract for contract in data["tool"]["importlinter"]["contracts"]}


def inside(folder: Path) -> set[str]:
    """Names of the packages and modules directly in a package."""
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    return packages | {path.stem for path in folder.glob("*.py")} - {"__init__"}


def test_imports_go_only_to_lower_layers_and_nothing_imports_the_algorithms() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_listing_of_the_package_fits_on_one_screen() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert len(folders) <= 10
    assert len([*PACKAGE.glob("*.py")]) <= 8


@pytest.mark.parametrize("contract", [name for name, own in contracts().items() if own["type"] == "layers"])
def test_every_module_and_folder_is_assigned_to_a_layer(contract: str) -> None:
    own = contracts()[contract]
    (container,) = own["containers"]
    named = {name.strip() for layer in own["layers"] for name in layer.split("|")}
    assert named == inside(ROOT / container.replace(".", "/"))
    assert own["exhaustive"] is True


def test_only_cli_may_import_the_districts_that_are_loaded_by_name() -> None:
    contract = contracts()["plugins"]
    assert {name.removeprefix("rlrun.") for name in contract["forbidden_modules"]} == BY_NAME
    assert {name.removeprefix("rlrun.") for name in contract["source_modules"]} == {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    } - BY_NAME - {"cli"}


def test_the_districts_picture_is_up_to_date() -> None:
    assert PICTURE.read_text() == picture(), "python -m scripts.districts"


def test_the_table_of_districts_names_every_folder() -> None:
    table = (ROOT / "docs" / "architecture.md").read_text().partition("## Districts")[2]
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    rooms = {path.parent.name for path in PACKAGE.glob("engine/*/__init__.py")}
    assert {name for name in folders | rooms if f"`{name}/`" not in table} == set()


def test_import_contracts_have_no_exceptions() -> None:
    for contract in contracts().values():
        assert "ignore_imports" not in contract
        assert "allow_indirect_imports" not in contract
