"""The script that measures import closures: what it follows, and what it counts."""

from __future__ import annotations

from pathlib import Path

from scripts.house import House


def house_of(root: Path, **files: str) -> House:
    """Returns the house of a package; `a__b` is the file a/b.py."""
    for name, text in {"__init__": "", **files}.items():
        path = root / "rlrun" / (name if name.startswith("__") else name.replace("__", "/", 1))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_text(text)
    return House(root)


def test_a_closure_grows_with_imports_in_functions_and_then_with_those_for_types(tmp_path: Path) -> None:
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


def test_a_facade_hides_nothing_and_a_package_of_a_docstring_alone_is_not_counted(tmp_path: Path) -> None:
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


def test_what_the_packages_own_file_imports_counts_where_it_is_imported_by_name(tmp_path: Path) -> None:
    house = house_of(
        tmp_path,
        __init__="from rlrun.run import run",
        run="",
        start="import rlrun",
        other="from rlrun import run",
    )
    assert house.closure("rlrun.start", "module") == {"rlrun.start", "rlrun", "rlrun.run"}
    assert house.closure("rlrun.other", "module") == {"rlrun.other", "rlrun", "rlrun.run"}
