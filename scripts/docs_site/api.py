"""API reference: what `import rlrun` offers, and what plugins of the examples and the guides import."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
from collections.abc import Iterator

import rlrun
from rlrun.engine.settings.registry import BUILT_IN, algorithm_class
from scripts.docs_site.docstrings import rst
from scripts.docs_site.page import ROOT, Page, table

PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PUBLIC = "api/rlrun"


def api_pages() -> dict[str, Page]:
    """Returns a page for each room of the package that plugins import from, and the first one, of `import rlrun`."""
    rooms: dict[str, list[str]] = {}
    for name in plugin_names():
        rooms.setdefault(f"api/{name.split('.')[1]}", []).append(name)
    pages = {name: room_page(name, names) for name, names in sorted(rooms.items())}
    first = Page("api", public_text(), children=list(pages))
    return {"api": first, **pages}


def public_names() -> list[str]:
    """Returns the names that `import rlrun` offers, without the classes of algorithms."""
    return sorted(rlrun._PLACES)


def public_text() -> str:
    """Text of the first page: what `import rlrun` offers."""
    names = [f"{rlrun._PLACES[name]}.{name}" for name in public_names()]
    rows = [[f"`rlrun.{algorithm_class(name).__name__}`", f"[`{name}`](algorithms.md)"] for name in BUILT_IN]
    return "\n\n".join(
        [
            "# API reference",
            "What programs and plugins may use. [From Python](python.md) shows the first steps, and [an algorithm and "
            "an env of one's own](extending.md) the others.",
            "## What `import rlrun` offers",
            *(directive(name, as_public=True) for name in names),
            "## Classes of algorithms\n",
            table(["class", "algorithm"], rows),
        ]
    )


def room_page(name: str, names: list[str]) -> Page:
    """Returns the page of a room, by module."""
    room = name.removeprefix("api/")
    text = [f"# `rlrun.{room}`", first_sentence(importlib.import_module(f"rlrun.{room}"))]
    modules: dict[str, list[str]] = {}
    for full in names:
        modules.setdefault(full.rpartition(".")[0], []).append(full)
    for module, own in modules.items():
        if module != f"rlrun.{room}":
            text += [f"## `{module}`", first_sentence(importlib.import_module(module))]
        text += [directive(full) for full in own]
    return Page(name, "\n\n".join(part for part in text if part))


def first_sentence(module: object) -> str:
    """First sentence of a docstring."""
    return re.split(r"(?<=\.)\s", inspect.getdoc(module) or "")[0].replace("``", "`")


def directive(full: str, *, as_public: bool = False) -> str:
    """Directive of Sphinx that documents a name by its docstring and its annotations."""
    module, _, name = full.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    if as_public and full in plugin_names():
        return f"[`rlrun.{name}`](#{full}): {first_sentence(found)}"
    if is_own_class(found):
        lines = [f".. autoclass:: {full}", "   :members:"]
    elif inspect.isfunction(found):
        lines = [f".. autofunction:: {full}"]
    else:
        lines = [
            f".. py:data:: {full}",
            "",
            *(f"   {line}" for line in rst(docstring_below(module, name)).splitlines()),
        ]
    return "\n".join(["```{eval-rst}", *lines, "```"])


def docstring_below(module: str, name: str) -> str:
    """Text under the assignment of a name, such as a type's alias; "" without one."""
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    for node, following in itertools.pairwise(body):
        targets = node.targets if isinstance(node, ast.Assign) else []
        text = following.value if isinstance(following, ast.Expr) else None
        is_it = any(isinstance(target, ast.Name) and target.id == name for target in targets)
        if is_it and isinstance(text, ast.Constant):
            return inspect.cleandoc(str(text.value))
    return ""


def plugin_names() -> list[str]:
    """Returns the full names that examples and Python blocks of the guides import from rlrun, by module."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").rglob("*.py"))]
    for page in sorted((ROOT / "docs").rglob("*.md")):
        texts += PYTHON.findall(page.read_text(encoding="utf-8"))
    return sorted({name for text in texts for name in imported(text)})


def imported(text: str) -> Iterator[str]:
    """Yields the full names that Python code imports from modules of rlrun; classes where they are defined."""
    for module, names in re.findall(r"^ *from (rlrun\.[\w.]+) import ([\w, ]+)", text, re.MULTILINE):
        for name in re.findall(r"\w+", names):
            found = getattr(importlib.import_module(module), name)
            yield f"{found.__module__ if is_own_class(found) else module}.{name}"


def is_own_class(found: object) -> bool:
    """Whether an object is a class of rlrun, not an alias of a type."""
    return inspect.isclass(found) and str(found.__module__).startswith("rlrun.")
