"""Code shipping: sends the user's own modules to the machines of a Ray cluster.

The shipped modules are those that experiments name (``env: my_lab.room:Room``) and everything they import, directly or
indirectly, including imports inside functions. A package is shipped whole, with its data files, and a single module as
one file. Installed packages, rlrun among them, are not shipped and must be installed on all machines.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rlrun.engine.checkpoint.durable import megabytes
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.settings.sources import is_installed, named_modules
from rlrun.experiments.spec.experiment import Experiment

MAX_BYTES = 100 * 2**20
"""Maximum size of a shipped package in bytes; a larger package must contain data sets."""

LEFT_OUT = ("__pycache__", ".?*")
"""Patterns of files that are not shipped: caches and hidden files. ``.*`` would match the package's own folder."""


def code_environment(experiments: Iterable[Experiment]) -> dict[str, Any]:
    """Builds Ray's ``runtime_env``, which ships the user's own modules to every machine; {} if all are installed.

    Args:
        experiments: The experiments that will run.

    Raises:
        UsageError: If a package exceeds the maximum size.
    """
    modules = user_modules(experiments)
    for name, path in modules.items():
        size = sum(file.stat().st_size for file in _files(path))
        if size > MAX_BYTES:
            raise UsageError(
                f"{path} is sent to the cluster, but its {megabytes(size)} exceed the limit of "
                f"{megabytes(MAX_BYTES)}: move data files elsewhere, or install '{name}' on all machines"
            )
    return {"py_modules": [str(path) for path in modules.values()], "excludes": list(LEFT_OUT)} if modules else {}


def user_modules(experiments: Iterable[Experiment]) -> dict[str, Path]:
    """Returns `{name: folder or file}` for each top-level module that experiments import and that is not installed."""
    found: dict[str, Path] = {}
    wanted = sorted({name for experiment in experiments for name in _named(experiment)})
    seen = set(wanted)
    while wanted:
        name = wanted.pop()
        path = _path_of(name)
        if path is None or name == "rlrun" or is_installed(path):
            continue
        found[name] = path
        imported = {top for file in _files(path) if file.suffix == ".py" for top in _imported(file)}
        wanted += sorted(imported - seen)
        seen |= imported
    return found


def _named(experiment: Experiment) -> Iterator[str]:
    """Yields the names of the top-level modules of an experiment's import paths and algorithms."""
    for algorithm in experiment.algorithms:
        yield algorithm_class(algorithm).__module__.partition(".")[0]
    for module in named_modules(experiment.to_data()):
        yield module.partition(".")[0]


def _path_of(name: str) -> Path | None:
    """Folder or file of a top-level module; None if it has no Python source."""
    if name in sys.builtin_module_names or name == "__main__":
        return None
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if found is None:
        return None
    folders = list(found.submodule_search_locations or ())
    path = Path(folders[0] if folders else found.origin or "")
    return path.resolve() if path.is_dir() or path.suffix == ".py" else None


def _files(path: Path) -> list[Path]:
    """Lists the files of a module: a single file, or a package's files without caches and hidden files."""
    if path.is_file():
        return [path]
    left_out = ("__pycache__", ".")
    return sorted(
        file
        for file in path.rglob("*")
        if file.is_file() and not any(part.startswith(left_out) for part in file.relative_to(path).parts)
    )


def _imported(file: Path) -> set[str]:
    """Parses a file for the names of imported top-level modules; none after a syntax error."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names
