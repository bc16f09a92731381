"""What holds for every module: a docstring, a name that says something, packages that pull nothing in."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "rlrun"
VAGUE_NAMES = {"util", "utils", "common", "core", "base", "misc", "helper", "helpers", "manager", "handler", "context"}


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def test_every_module_says_what_it_is_for_and_packages_say_nothing_else() -> None:
    bodies = {path: ast.parse(path.read_text()).body for path in PACKAGE.rglob("*.py")}
    assert [str(path) for path, body in bodies.items() if not body or not is_docstring(body[0])] == []
    public = {PACKAGE, PACKAGE / "toys"}
    packages = {path: body for path, body in bodies.items() if path.name == "__init__.py" and path.parent not in public}
    assert packages
    assert [str(path) for path, body in packages.items() if len(body) > 1] == []


def test_every_name_says_something() -> None:
    paths = [path.parent if path.name == "__init__.py" else path for path in PACKAGE.rglob("*.py")]
    assert [str(path) for path in paths if VAGUE_NAMES & set(path.stem.split("_"))] == []


@pytest.mark.parametrize("name", ["training", "running_training"])
def test_what_runs_a_training_is_put_together_from_small_parts(name: str) -> None:
    body = ast.parse((PACKAGE / "engine" / "training" / f"{name}.py").read_text()).body
    (found,) = [node for node in body if isinstance(node, ast.ClassDef)]
    assert found.end_lineno is not None
    assert found.end_lineno - found.lineno < 250


@pytest.mark.parametrize("name", ["ppo", "a2c", "impala/impala", "impala/appo"])
def test_files_of_algorithms_do_not_mention_curiosity_and_constraints(name: str) -> None:
    text = (PACKAGE / "algorithms" / f"{name}.py").read_text()
    assert re.findall(r"(?i)curio\w*|constraint|constrained|intrinsic|lagrang\w*", text) == []
