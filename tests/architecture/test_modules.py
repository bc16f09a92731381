"""What holds for every module: a docstring, a name that says something, packages that pull nothing in."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "rlrun").rglob("*.py"))
VAGUE_NAMES = {"util", "utils", "common", "core", "base", "misc", "helper", "helpers", "manager", "handler", "context"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{relative(path)} has no docstring"


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_module_name_says_something(path: Path) -> None:
    name = path.parent.name if path.name == "__init__.py" else path.stem
    assert not VAGUE_NAMES & set(name.split("_"))


@pytest.mark.parametrize("path", sorted((ROOT / "rlrun").glob("*/**/__init__.py")), ids=relative)
def test_package_pulls_nothing_in(path: Path) -> None:
    (docstring,) = ast.parse(path.read_text()).body
    assert isinstance(docstring, ast.Expr)
