"""Gives modules and names of the package new places: rewrites what imports or names them, and notes where they went.

    python -m tools.move_names rlrun.worlds.world_view:WorldView=rlrun.worlds.world_view
    python -m tools.move_names rlrun.dynamics.ensemble=rlrun.algorithms.model_based.ensemble

A module moves with its file, by `git mv`; a name is moved by hand before, and its importers follow here. Imports,
strings `module:Name` and dotted paths are rewritten in code, specs and documents. Each move is added to
`rlrun/moved_names.yaml`, by which plugins of users are told where a name is now. Run `make format` afterwards.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "rlrun" / "moved_names.yaml"
FOLDERS = ("rlrun", "tests", "benchmarks", "tools", "examples", "configs", "docs")
FILES = ("pyproject.toml", "README.md")
KEPT = (
    "moved_names.yaml",
    "golden_runs.yaml",
    "former_runs.yaml",
    "upgrading.md",
    "registry.py",
    "test_registry.py",
    "test_plain_yaml.py",
    "move_names.py",
)
"""Files that hold former names on purpose, as `tests/former_runs` does."""


def main() -> int:
    """Carries out the moves that are named."""
    moves = dict(word.split("=") for word in sys.argv[1:])
    if not moves or any(":" in new for new in moves.values()):
        sys.exit(__doc__)
    for old, new in moves.items():
        if ":" not in old:
            move_file(old, new)
    for path in files():
        text = path.read_text()
        changed = in_imports(text, moves) if path.suffix == ".py" else text
        changed = in_text(changed, moves)
        if changed != text:
            path.write_text(changed)
            print(path.relative_to(ROOT))
    known = (line.partition(": ") for line in TABLE.read_text().splitlines())
    entries = {old: moves.get(new, new) for old, _, new in known} | moves
    TABLE.write_text("".join(f"{old}: {new}\n" for old, new in entries.items()))
    return 0


def files() -> Iterator[Path]:
    """Yields the files in which names of the package may stand."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            is_read = path.suffix in (".py", ".yaml", ".md") and not any(part.is_symlink() for part in path.parents)
            if is_read and path.name not in KEPT and "former_runs" not in path.parts:
                yield path
    yield from (ROOT / name for name in FILES)


def move_file(old: str, new: str) -> None:
    """Moves a module's file, and makes the packages around its new place."""
    source, target = (ROOT / f"{name.replace('.', '/')}.py" for name in (old, new))
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "-C", str(ROOT), "mv", str(source), str(target)], check=True)


def in_imports(text: str, moves: Mapping[str, str]) -> str:
    """Returns code whose `from module import name` take moved names from their new modules."""
    lines = text.splitlines(keepends=True)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.module]
    for node in sorted(nodes, key=lambda node: node.lineno, reverse=True):
        by_module: dict[str, list[str]] = {}
        for alias in node.names:
            module, name = moves.get(f"{node.module}:{alias.name}", str(node.module)), alias.name
            if moved := moves.get(f"{node.module}.{alias.name}"):
                module, _, name = moved.rpartition(".")
            known_as = alias.asname or alias.name
            by_module.setdefault(module, []).append(name + (f" as {known_as}" if known_as != name else ""))
        if set(by_module) != {node.module}:
            indent = " " * node.col_offset
            new = [f"{indent}from {module} import ({', '.join(names)})\n" for module, names in by_module.items()]
            lines[node.lineno - 1 : node.end_lineno] = new
    return "".join(lines)


def in_text(text: str, moves: Mapping[str, str]) -> str:
    """Returns text whose paths `module:Name`, `module.Name`, `module` and `module.py` are the new ones."""
    names = {old: new for old, new in moves.items() if ":" in old}
    for old, new in names.items():
        module, _, name = old.partition(":")
        is_there = rf"(?!{re.escape(new)}(?!\w))"  # a module may have the name of what it holds
        text = re.sub(rf"(?<![\w.]){is_there}{re.escape(module)}([:.]){name}(?!\w)", rf"{new}\1{name}", text)
        # Code in documents and in strings, one name a line.
        text = re.sub(rf"from {re.escape(module)} import {name}(?![\w,])", f"from {new} import {name}", text)
    modules = {old: new for old, new in moves.items() if old not in names}
    if not modules:
        return text
    # In one pass, since a new name may begin with a former one: a.b moves to a.b.c, and a.b.c is no former name.
    any_module = "|".join(map(re.escape, sorted(modules, key=len, reverse=True)))
    pattern = rf"(?<![\w.])({any_module})(?!\w|\.[a-z])(?: import (\w+))?"
    text = re.sub(pattern, lambda found: found[0].replace(found[1], _present(found[1], found[2], modules)), text)
    files = {old.replace(".", "/") + ".py": new.replace(".", "/") + ".py" for old, new in modules.items()}
    return re.sub("|".join(map(re.escape, files)), lambda found: files[found[0]], text)


def _present(module: str, name: str | None, modules: Mapping[str, str]) -> str:
    """Returns a module's new name, or its own if a package has it now and the imported name is a module of that."""
    is_package = name is not None and (ROOT / module.replace(".", "/") / f"{name}.py").exists()
    return module if is_package else modules[module]


if __name__ == "__main__":
    sys.exit(main())
