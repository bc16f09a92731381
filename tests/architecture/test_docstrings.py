"""Docstrings: what their first lines say, and where arguments are described."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
MODULES = list((REPOSITORY / "rlrun").rglob("*.py"))


def test_no_constructor_says_what_it_takes() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        if (ast.get_docstring(node) or "").startswith("Takes ")
    ]
    assert not found, "arguments that need words have them under `Args:` of the class"


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yields all bare strings: docstrings, of attributes and constants too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def test_the_first_line_of_a_docstring_is_a_concept_and_no_question() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{text.lineno}: {str(text.value).splitlines()[0]}"
        for path in MODULES
        for text in docstrings(ast.parse(path.read_text("utf-8")))
        if re.match(r"(Returns )?(what|how|who|whom|whose|where|which|why)\b|(Says|Tells)\b", str(text.value), re.I)
        and not re.match(r"Returns (which|why)\b", str(text.value))
    ]
    assert not found, "name the field's concept"


def test_each_module_of_the_glossary_is_there() -> None:
    named = re.findall(r"`(rlrun(?:\.\w+)+)`", (REPOSITORY / "docs" / "concepts.md").read_text("utf-8"))
    assert len(named) > 40
    assert [name for name in named if importlib.util.find_spec(name) is None] == []
