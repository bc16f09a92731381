"""Measures how much one has to read: import closures, long classes and functions, cycles, inheritance, lines of code.

    python scripts/house.py                        # the files as they are
    python scripts/house.py --against 6bb1e51      # beside a revision

Nothing is imported. A closure is every file of the package that a file imports, also inside functions and for type
checkers only, and what these import in turn; packages' own files hold a docstring alone and are not counted. Code
lines are those that are neither blank nor only a comment or part of a docstring.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "rlrun"
ALGORITHMS = f"{PACKAGE}.algorithms"
CLOSURES = ("ppo", "dqn", "sac", "apex", "r2d2")
TRAINING_ROOMS = (
    "policy", "nn", "learner", "flow", "rollout",
    "algorithm", "training", "python_api", "off_policy", "learning_beside",
)  # fmt: skip
"""What trains: packages and modules below the package, past ones too."""

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A file of the package.

    Attributes:
        name: Its dotted name.
        text: What it holds.
    """

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def num_lines(self) -> int:
        """Its lines, all of them."""
        return len(self.text.splitlines())

    @cached_property
    def num_code_lines(self) -> int:
        """Its lines without docstrings, comments and blanks."""
        skipped = (
            tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
            tokenize.ENDMARKER,
        )  # fmt: skip
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in skipped:
                lines.update(range(token.start[0], token.end[0] + 1))
        return len(lines - set(self._docstring_lines()))

    def definitions(self) -> Iterator[Definition]:
        """Yields its classes and functions, inner ones too."""
        for node in ast.walk(self.tree):
            if isinstance(node, Definition):
                yield node

    def _docstring_lines(self) -> Iterator[int]:
        """Yields the lines of bare strings: docstrings, of attributes too."""
        for node in ast.walk(self.tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


class House:
    """All files of a revision of the package."""

    def __init__(self, root: Path) -> None:
        """Reads them.

        Args:
            root: The folder that holds the package.
        """
        self.modules = {
            name: Module(name, path.read_text())
            for path in sorted((root / PACKAGE).rglob("*.py"))
            if not (name := ".".join(path.relative_to(root).with_suffix("").parts)).endswith("__init__")
        }
        self.imports = {name: frozenset(self._imported(module)) for name, module in self.modules.items()}

    def closure(self, start: str) -> set[str]:
        """Returns the names of a module and of all that it reaches."""
        found, waiting = {start}, [start]
        while waiting:
            new = self.imports[waiting.pop()] - found
            found |= new
            waiting += new
        return found

    def cycles(self) -> list[list[str]]:
        """Returns the sets of modules that import each other, directly or not."""
        reached = {name: self.closure(name) for name in self.modules}
        groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in self.modules}
        return sorted(sorted(group) for group in groups if len(group) > 1)

    def inheritance(self) -> list[str]:
        """Returns the longest chain of own classes that inherit from each other, the derived one first."""
        bases = {
            node.name: [_last_name(base) for base in node.bases]
            for module in self.modules.values()
            for node in module.definitions()
            if isinstance(node, ast.ClassDef)
        }

        def chain(name: str) -> list[str]:
            return [
                name,
                *max((chain(base) for base in bases[name] if base in bases and base != name), key=len, default=[]),
            ]

        return max(map(chain, bases), key=len)

    def inside(self, rooms: Iterable[str]) -> list[Module]:
        """Returns the modules of packages and the modules named."""
        heads = set(rooms)
        return [module for name, module in self.modules.items() if name.split(".")[1] in heads]

    def _imported(self, module: Module) -> Iterator[str]:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in self.modules)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield from (name for name in [node.module] if name in self.modules)
                inner = (f"{node.module}.{alias.name}" for alias in node.names)
                yield from (name for name in inner if name in self.modules)


def figures(house: House) -> dict[str, str]:
    """Returns what is printed, by what it is."""
    found = {}
    for algorithm in CLOSURES:
        closure = [house.modules[name] for name in house.closure(f"{ALGORITHMS}.{algorithm}")]
        lines = sum(module.num_lines for module in closure)
        found[f"import closure of {algorithm}"] = f"{len(closure)} files, {lines} lines"
    modules = house.modules.values()
    found["longest file"] = _longest({module.name: module.num_lines for module in modules})
    for kind, types in (("class", ast.ClassDef), ("function", (ast.FunctionDef, ast.AsyncFunctionDef))):
        lengths = {
            f"{module.name}.{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
            for module in modules
            for node in module.definitions()
            if isinstance(node, types)
        }
        found[f"longest {kind}"] = _longest(lengths)
    algorithms = {name: module.num_lines for name, module in house.modules.items() if name.startswith(ALGORITHMS)}
    found["longest algorithm file"] = _longest(algorithms)
    cycles = house.cycles()
    found["import cycles"] = "; ".join(", ".join(cycle) for cycle in cycles) or "none"
    chain = house.inheritance()
    found["deepest inheritance"] = f"{len(chain)} classes: {' < '.join(chain)}"
    found["what trains"] = _size(house.inside(TRAINING_ROOMS))
    found["with all algorithms"] = _size(house.inside([*TRAINING_ROOMS, "algorithms", "algorithm_config"]))
    found["the whole package"] = _size(modules)
    return found


def main() -> int:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="REVISION", help="print those of this revision as well")
    asked = parser.parse_args()
    now = figures(House(ROOT))
    before: Mapping[str, str] = {}
    if asked.against:
        with tempfile.TemporaryDirectory() as folder:
            command = ["git", "-C", str(ROOT), "archive", asked.against, PACKAGE]
            archive = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
            with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                files.extractall(folder, filter="data")
            before = figures(House(Path(folder)))
    for name, figure in now.items():
        print(f"{name + ':':<25} {figure}")
        if before:
            print(f"{'':>16} before: {before[name]}")
    return 0


def _size(modules: Collection[Module]) -> str:
    return f"{len(modules)} files, {sum(module.num_code_lines for module in modules)} code lines"


def _longest(lengths: Mapping[str, int]) -> str:
    name = max(lengths, key=lengths.__getitem__)
    return f"{lengths[name]} lines: {name}"


def _last_name(node: ast.expr) -> str:
    """Returns the class's own name of a base as it is written: `Algorithm` of `rlrun.Algorithm[C]`."""
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


if __name__ == "__main__":
    sys.exit(main())
