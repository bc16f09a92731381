"""API reference: the names in `rlrun` and `rlrun.plugin`."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re

import rlrun
import rlrun.plugin
from rlrun.engine.settings.registry import BUILT_IN, algorithm_class
from scripts.docs_site.docstrings import rst
from scripts.docs_site.page import Page, table

PLUGIN = "api/plugin"


def api_pages() -> dict[str, Page]:
    """Returns the page of `rlrun` and, below it, the page of `rlrun.plugin`."""
    page = Page(PLUGIN, plugin_text())
    return {"api": Page("api", public_text(), children=[PLUGIN]), PLUGIN: page}


def public_names() -> list[str]:
    """Returns the names in `rlrun`, without the classes of algorithms."""
    return sorted(rlrun._PLACES)


def public_text() -> str:
    """Text of the first page: the names in `rlrun`."""
    rows = [[f"`rlrun.{algorithm_class(name).__name__}`", f"[`{name}`](algorithms.md)"] for name in BUILT_IN]
    return "\n\n".join(
        [
            "# API reference",
            "Programs import from `rlrun`, as the [Python guide](python.md) shows. Plugins import everything else from "
            f"[`rlrun.plugin`]({PLUGIN}.md); see [extending rlrun](extending.md). All other modules are private.",
            documented("Training"),
            "## Algorithms\n",
            "Each algorithm is a class whose arguments are its settings: `PPO(lr=1e-3, gamma=0.98)`.",
            table(["class", "algorithm"], rows),
            "## Base class of algorithms and other names",
            *(documented(name) for name in public_names() if name != "Training"),
        ]
    )


def documented(name: str) -> str:
    """Sphinx directive that documents a name in `rlrun`."""
    return directive(rlrun._PLACES[name], name, f"rlrun.{name}")


def plugin_text() -> str:
    """Text of the page about `rlrun.plugin`: its names by module, without built-in algorithms."""
    text = ["# `rlrun.plugin`", inspect.getdoc(rlrun.plugin) or ""]
    modules: dict[str, list[str]] = {}
    for name, module in plugin_names().items():
        modules.setdefault(module, []).append(name)
    for module, names in sorted(modules.items()):
        text += [f"## {', '.join(f'`{name}`' for name in names)}", first_sentence(importlib.import_module(module))]
        text += [directive(module, name, f"rlrun.plugin.{name}") for name in names]
    return "\n\n".join(part for part in text if part)


def first_sentence(module: object) -> str:
    """First sentence of a module's docstring."""
    return re.split(r"(?<=\.)\s", inspect.getdoc(module) or "")[0].replace("``", "`")


def directive(module: str, name: str, public: str) -> str:
    """Sphinx directive that documents a name by its docstring and annotations.

    Args:
        module: The module that defines the name.
        name: The name in that module.
        public: The name that plugins import.
    """
    found = getattr(importlib.import_module(module), name)
    if is_own_class(found):
        lines = [f".. autoclass:: {public}", "   :members:"]
    elif inspect.isfunction(found):
        lines = [f".. autofunction:: {public}"]
    else:
        lines = [
            f".. py:data:: {public}",
            "",
            *(f"   {line}" for line in rst(docstring_below(module, name)).splitlines()),
        ]
    return "\n".join(["```{eval-rst}", *lines, "```"])


def docstring_below(module: str, name: str) -> str:
    """Docstring below the assignment of a name, such as a type alias; "" if there is none."""
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    for node, following in itertools.pairwise(body):
        targets = node.targets if isinstance(node, ast.Assign) else []
        text = following.value if isinstance(following, ast.Expr) else None
        is_it = any(isinstance(target, ast.Name) and target.id == name for target in targets)
        if is_it and isinstance(text, ast.Constant):
            return inspect.cleandoc(str(text.value))
    return ""


def plugin_names() -> dict[str, str]:
    """Modules of the names in `rlrun.plugin`, without names in `rlrun`, built-in algorithms and their settings."""
    return {
        name: module
        for name, module in rlrun.plugin._PLACES.items()
        if name not in rlrun._PLACES and not module.startswith("rlrun.algorithms.")
    }


def is_own_class(found: object) -> bool:
    """Whether an object is a class of rlrun rather than an alias of a type."""
    return inspect.isclass(found) and str(found.__module__).startswith("rlrun.")
