"""Measures how much code a reader has to read: import closures, function sizes, cycles, inheritance, lines of code.

    python -m scripts.house                        # the working tree
    python -m scripts.house --against 6bb1e51      # next to another revision

The script reads files without importing them. The closure of a file contains every file of the package that it imports,
directly or indirectly. It is printed four times, and each line includes the one before: imports that run when the
module is imported, imports inside functions, imports under `TYPE_CHECKING`, and import paths in tables, within the same
district. Importing a module imports the packages around it, so a facade in an `__init__.py` hides nothing; such a file
counts if it contains more than a docstring. The package's own `__init__.py`, which every import runs, counts only if a
file imports from it by name. Code lines exclude blank lines, comments and docstrings; import lines are the code lines
of import statements. Complexity is McCabe's (TSE 1976), with each boolean operator and comprehension counted as a
branch; the script prints the most complex functions of each district.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "rlrun"
ALGORITHMS = f"{PACKAGE}.algorithms"
CLOSURES = ("ppo", "dqn", "sac", "qmix", "apex", "r2d2")
LEVELS = {"module": "when imported", "function": "and in functions", "types": "and for types", "named": "and by name"}
"""The kinds of imports that a closure follows; each level includes the levels before it."""
IMPORT_PATH = re.compile(rf"({PACKAGE}(?:\.\w+)+):\w+")
"""Import path of an object of the package, as written in tables of objects that are imported on demand."""
MOST_COMPLEX = 3
"""Number of functions per district that are printed with their complexity."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.ClassDef | Function
Branch = ast.If | ast.IfExp | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler | ast.Assert | ast.match_case


@dataclass(frozen=True)
class Module:
    """A file of the package.

    Attributes:
        name: Its dotted name.
        text: Its contents.
    """

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def num_lines(self) -> int:
        """Number of its lines."""
        return len(self.text.splitlines())

    @cached_property
    def num_code_lines(self) -> int:
        """Number of its lines without docstrings, comments and blank lines."""
        skipped = (
            tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
            tokenize.ENDMARKER,
        )  # fmt: skip
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in skipped:
                lines.update(range(token.start[0], token.end[0] + 1))
        return len(lines - set(self._docstring_lines()))

    @cached_property
    def num_import_lines(self) -> int:
        """Number of its lines in import statements, including imports inside functions."""
        imports = (node for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom))
        return len({line for node in imports for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)})

    @cached_property
    def named(self) -> list[str]:
        """Import paths of the package's objects in its strings, as in tables of objects that are imported on demand."""
        texts = (node.value for node in ast.walk(self.tree) if isinstance(node, ast.Constant))
        return [text for text in texts if isinstance(text, str) and IMPORT_PATH.fullmatch(text)]

    @cached_property
    def definitions(self) -> list[Definition]:
        """Its classes and functions, including inner ones."""
        return [node for node in ast.walk(self.tree) if isinstance(node, Definition)]

    def _docstring_lines(self) -> Iterator[int]:
        """Yields the lines of bare strings: docstrings, including those of attributes."""
        for node in ast.walk(self.tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


@dataclass(frozen=True)
class Class:
    """Size of a class.

    Attributes:
        lines: The class's own lines.
        lines_with_bases: Its lines and the lines of its bases inside the package.
        ancestors: The class and these bases, as `module.Name`.
    """

    lines: int
    lines_with_bases: int
    ancestors: frozenset[str]


class House:
    """All files of the package at a revision."""

    def __init__(self, root: Path) -> None:
        """Reads the files.

        Args:
            root: The folder that contains the package.
        """
        paths = {
            ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
            for path in sorted((root / PACKAGE).rglob("*.py"))
        }
        self.packages = {name for name, path in paths.items() if path.stem == "__init__"}
        self.modules = {name: Module(name, path.read_text()) for name, path in paths.items()}
        found = {name: [*self._imported(module)] for name, module in self.modules.items()}
        order = list(LEVELS)
        self.imports = {
            level: {
                name: {other for other, at in imported if order.index(at) <= order.index(level)}
                for name, imported in found.items()
            }
            for level in LEVELS
        }
        """For each level, the imports of each module."""

    def algorithm(self, name: str) -> str:
        """Returns the module of an algorithm: a file of `algorithms/`, or of a family's folder there."""
        return max(module for module in self.modules if module.startswith(ALGORITHMS) and module.endswith(f".{name}"))

    def closure(self, start: str, level: str = "types") -> set[str]:
        """Returns the names of a module and of everything that it imports, directly or indirectly.

        Args:
            start: The module.
            level: Which imports count: a key of `LEVELS`.
        """
        found, waiting = {start}, [start]
        while waiting:
            new = self.imports[level][waiting.pop()] - found
            found |= new
            waiting += new
        return {name for name in found if self._is_counted(name)}

    def files(self) -> list[Module]:
        """Returns the modules, and the `__init__.py` files that contain more than a docstring."""
        return [module for name, module in self.modules.items() if self._is_counted(name)]

    def _is_counted(self, name: str) -> bool:
        return name not in self.packages or self.modules[name].num_code_lines > 0

    def cycles(self) -> list[list[str]]:
        """Returns the sets of modules that import each other, directly or indirectly."""
        reached = {name: self.closure(name) for name in self.modules}
        groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in self.modules}
        return sorted(sorted(group) for group in groups if len(group) > 1)

    def inheritance(self) -> list[str]:
        """Returns the longest chain of the package's classes that inherit from each other, most derived class first."""
        bases = {
            node.name: [_last_name(base) for base in node.bases]
            for module in self.modules.values()
            for node in module.definitions
            if isinstance(node, ast.ClassDef)
        }

        def chain(name: str) -> list[str]:
            return [
                name,
                *max((chain(base) for base in bases[name] if base in bases and base != name), key=len, default=[]),
            ]

        return max(map(chain, bases), key=len)

    def complexities(self) -> dict[str, int]:
        """Returns the complexity of each function, by its dotted name and line number."""
        return {
            f"{module.name}:{node.lineno} {node.name}": complexity(node)
            for module in self.files()
            for node in module.definitions
            if isinstance(node, Function)
        }

    @cached_property
    def classes(self) -> dict[str, Class]:
        """All classes by `module.Name`, including inner ones."""
        own = {
            f"{module.name}.{node.name}": (module.name, node)
            for module in self.modules.values()
            for node in module.definitions
            if isinstance(node, ast.ClassDef)
        }
        modules_of: dict[str, list[str]] = {}
        for module, node in own.values():
            modules_of.setdefault(node.name, []).append(module)

        def bases(module: str, node: ast.ClassDef) -> Iterator[str]:
            for base in map(_last_name, node.bases):
                found = [other for other in modules_of.get(base, ()) if f"{other}.{base}" != f"{module}.{node.name}"]
                near = [other for other in found if other in {module, *self.imports["types"][module]}]
                yield from (f"{other}.{base}" for other in (near or found)[:1])

        def ancestors(name: str) -> set[str]:
            return {name}.union(*(ancestors(base) for base in bases(*own[name])))

        lines = {name: (node.end_lineno or node.lineno) - node.lineno + 1 for name, (_, node) in own.items()}
        return {
            name: Class(lines[name], sum(map(lines.__getitem__, above)), frozenset(above))
            for name in own
            for above in [ancestors(name)]
        }

    def districts(self) -> dict[str, list[Module]]:
        """Returns the modules of each folder of the package; the package's name lists the modules outside folders."""
        found: dict[str, list[Module]] = {}
        for module in self.files():
            parts = module.name.split(".")
            is_inside = len(parts) > 2 or module.name in self.packages
            found.setdefault(".".join(parts[:2]) if is_inside else PACKAGE, []).append(module)
        return dict(sorted(found.items()))

    def _imported(self, module: Module) -> Iterator[tuple[str, str]]:
        """Yields a module's imports from the package, and their levels; packages around an imported module count."""
        for node, level in imports_of(module.tree, "module"):
            names = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{name}" for name in names)]
            for name in filter(self.modules.__contains__, names):
                yield name, level
                parts = name.split(".")
                around = (".".join(parts[:length]) for length in range(2, len(parts)))
                yield from ((each, level) for each in around if not module.name.startswith(f"{each}."))
        for name in (path.partition(":")[0] for path in module.named):
            if name in self.modules and name.split(".")[1] == module.name.split(".")[1]:
                yield name, "named"


def imports_of(node: ast.AST, level: str) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    """Yields the imports inside a node with their levels, which differ in functions and under `TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, level
        elif isinstance(child, ast.If) and _last_name(child.test) == "TYPE_CHECKING":
            for statement in child.body:
                yield from imports_of(ast.Module([statement], []), "types")
            for statement in child.orelse:
                yield from imports_of(ast.Module([statement], []), level)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports_of(child, "types" if level == "types" else "function")
        else:
            yield from imports_of(child, level)


def complexity(function: Function) -> int:
    """Returns McCabe's complexity of a function, counting boolean operators, comprehensions and inner functions."""
    branches = 0
    for node in ast.walk(function):
        if isinstance(node, ast.BoolOp):
            branches += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            branches += 1 + len(node.ifs)
        elif isinstance(node, Branch):
            branches += 1
    return 1 + branches


def figures(house: House) -> dict[str, str]:
    """Returns the figures to print, by description."""
    found = {}
    for algorithm in CLOSURES:
        for level, meaning in LEVELS.items():
            closure = [house.modules[name] for name in house.closure(house.algorithm(algorithm), level)]
            lines = sum(module.num_lines for module in closure)
            found[f"closure of {algorithm}, {meaning}"] = f"{len(closure)} files, {lines} lines"
    modules = house.files()
    found["longest file"] = _longest({module.name: module.num_lines for module in modules})
    for kind, types in (("class", ast.ClassDef), ("function", (ast.FunctionDef, ast.AsyncFunctionDef))):
        lengths = {
            f"{module.name}.{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
            for module in modules
            for node in module.definitions
            if isinstance(node, types)
        }
        found[f"longest {kind}"] = _longest(lengths)
    found["longest class with bases"] = _longest({name: each.lines_with_bases for name, each in house.classes.items()})
    algorithms = {name: module.num_lines for name, module in house.modules.items() if name.startswith(ALGORITHMS)}
    found["longest algorithm file"] = _longest(algorithms)
    by_district: dict[str, dict[str, int]] = {}
    for name, value in house.complexities().items():
        parts = name.partition(":")[0].split(".")
        by_district.setdefault(".".join(parts[:2]) if len(parts) > 2 else PACKAGE, {})[name] = value
    for district, values in sorted(by_district.items()):
        highest = sorted(values, key=values.__getitem__, reverse=True)[:MOST_COMPLEX]
        found[f"most complex in {district}"] = ", ".join(f"{values[name]} {name}" for name in highest)
    cycles = house.cycles()
    found["import cycles"] = "; ".join(", ".join(cycle) for cycle in cycles) or "none"
    chain = house.inheritance()
    found["deepest inheritance"] = f"{len(chain)} classes: {' < '.join(chain)}"
    found.update({f"size of {district}": _size(inside) for district, inside in house.districts().items()})
    found["size of all"] = _size(modules)
    return found


def main() -> int:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="REVISION", help="also print the numbers of this revision")
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
        print(f"{name + ':':<37} {figure}")
        if before:
            print(f"{'':>28} before: {before.get(name, 'none')}")
    return 0


def _size(modules: Collection[Module]) -> str:
    lines = sum(module.num_code_lines for module in modules)
    imports = sum(module.num_import_lines for module in modules)
    return f"{len(modules)} files, {lines} code lines, {imports / lines if lines else 0:.1%} of them imports"


def _longest(lengths: Mapping[str, int]) -> str:
    name = max(lengths, key=lengths.__getitem__)
    return f"{lengths[name]} lines: {name}"


def _last_name(node: ast.expr) -> str:
    """Returns the unqualified class name in a base: `Algorithm` for `rlrun.Algorithm[C]`."""
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


if __name__ == "__main__":
    sys.exit(main())
