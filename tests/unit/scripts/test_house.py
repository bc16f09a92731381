"""The script that measures import closures and complexity: what it follows, and what it counts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scripts.house import House, Module, complexity


def house_of(root: Path, **files: str) -> House:
    """Returns the house of a package; `a__b` is the file a/b.py."""
    for name, text in {"__init__": "", **files}.items():
        path = root / "rlrun" / (name if name.startswith("__") else name.replace("__", "/", 1))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_text(text)
    return House(root)


def test_a_closure_can_also_follow_imports_inside_functions_or_all_including_type_checking_imports(
    tmp_path: Path,
) -> None:
    start = (
        "from typing import TYPE_CHECKING\nfrom rlrun import one\n"
        "if TYPE_CHECKING:\n    from rlrun.three import Three\n"
        "def f() -> None:\n    import rlrun.two\n"
    )
    house = house_of(tmp_path, start=start, one="", two="", three="from rlrun.four import x", four="x = 1")
    assert house.closure("rlrun.start", "module") == {"rlrun.start", "rlrun.one"}
    assert house.closure("rlrun.start", "function") == {"rlrun.start", "rlrun.one", "rlrun.two"}
    everything = {f"rlrun.{name}" for name in ("start", "one", "two", "three", "four")}
    assert house.closure("rlrun.start", "types") == everything


def test_a_closure_includes_what_a_facade_imports_but_not_packages_with_only_a_docstring(tmp_path: Path) -> None:
    house = house_of(
        tmp_path,
        start="from rlrun.room.small import f",
        room____init__="from rlrun.room.large import g",
        room__small="",
        room__large="from rlrun.hall.wide import h",
        hall____init__='"""A hall."""',
        hall__wide="",
    )
    found = house.closure("rlrun.start", "module")
    assert found == {"rlrun.start", "rlrun.room", "rlrun.room.small", "rlrun.room.large", "rlrun.hall.wide"}


def test_imports_of_the_top_level_package_are_part_of_the_closure(tmp_path: Path) -> None:
    house = house_of(
        tmp_path,
        __init__="from rlrun.run import run",
        run="",
        start="import rlrun",
        other="from rlrun import run",
    )
    assert house.closure("rlrun.start", "module") == {"rlrun.start", "rlrun", "rlrun.run"}
    assert house.closure("rlrun.other", "module") == {"rlrun.other", "rlrun", "rlrun.run"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return x", 1),
        ("if x: pass\n    elif y: pass\n    else: pass", 3),
        ("for x in y:\n        while x: break", 3),
        ("try: pass\n    except A: pass\n    except B: pass", 3),
        ("match x:\n        case 1: pass\n        case _: pass", 3),
        ("return a if b else c", 2),
        ("return a and b and c or d", 4),
        ("return [x for x in y if x if y]", 4),
        ("assert a", 2),
        ("def inner(): return a or b\n    return inner", 2),
    ],
)
def test_branches_boolean_operators_and_comprehensions_make_a_function_complex(body: str, expected: int) -> None:
    (function,) = ast.parse(f"def f(x):\n    {body}").body
    assert isinstance(function, ast.FunctionDef)
    assert complexity(function) == expected


def test_complexities_are_listed_by_module_and_line(tmp_path: Path) -> None:
    house = house_of(tmp_path, room__file="def f(): return a or b\n\nclass C:\n    def g(self): pass\n")
    assert house.complexities() == {"rlrun.room.file:1 f": 2, "rlrun.room.file:4 g": 1}


def test_lines_of_a_class_with_its_bases_include_each_base_from_the_package_exactly_once(tmp_path: Path) -> None:
    house = house_of(
        tmp_path,
        first="class Base:\n    a = 1\n",
        other="class Base:\n    a = 1\n    b = 2\n    c = 3\n",
        start=(
            "from rlrun.first import Base\n"
            "class Left(Base):\n    b = 2\n\nclass Right(Base):\n    c = 3\n\n"
            "class Both(Left, Right, dict):\n    d = 4\n"
        ),
    )
    both = house.classes["rlrun.start.Both"]
    assert (both.lines, both.lines_with_bases) == (2, 8)
    assert both.ancestors == {f"rlrun.{name}" for name in ("start.Both", "start.Left", "start.Right", "first.Base")}


def test_import_lines_count_every_line_of_an_import_statement_even_inside_a_function() -> None:
    module = Module("start", "from a import (\n    b,\n    c,\n)\n\n\ndef f():\n    import d\n    return b(c)\n")
    assert (module.num_code_lines, module.num_import_lines) == (7, 5)
