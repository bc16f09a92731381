"""Sphinx extension: formulas as MathML, short signatures, and links for types that annotations name without module."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import re
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from scripts.docs_site.docstrings import fields
from scripts.docs_site.page import ROOT

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

LONG_SIGNATURE = 200
"""Length of a class's signature from which on it lists only parameter names."""

FUNCTION = re.compile(r"<m[io]>([a-z]{2,})</m[io]>")
"""Function name in MathML, such as "log"."""

OTHERS = frozenset(
    {"numpy", "np", "torch", "gymnasium", "gym", "ray", "pydantic", "pathlib", "typing", "collections", "abc", "types"}
)
"""Packages whose types are shown without links, because the build downloads nothing."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the extension."""
    app.connect("missing-reference", resolved)
    app.connect("autodoc-process-docstring", converted)
    app.connect("autodoc-process-signature", short_signature)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
    app.connect("html-page-context", with_small_sidebar, priority=1)  # before the theme asks for the sidebar
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_formula(translator: Any, node: nodes.math | nodes.math_block) -> None:
    """Writes a formula into the HTML, inline or as a block.

    Raises:
        SkipNode: Always, because the formula's children have already been written.
    """
    from docutils import nodes

    is_block = isinstance(node, nodes.math_block)
    math = mathml(node.astext(), is_block=is_block)
    translator.body.append(f'<div class="formula">{math}</div>' if is_block else math)
    raise nodes.SkipNode


def mathml(latex: str, *, is_block: bool) -> str:
    """MathML of a formula, with TeX's thin spaces around function names."""
    from latex2mathml.converter import convert

    math: str = convert(latex, display="block" if is_block else "inline")
    return FUNCTION.sub(r'<mo lspace="0.167em" rspace="0.167em">\1</mo>', math)


def converted(app: Sphinx, what: str, name: str, found: object, options: object, lines: list[str]) -> None:
    """Converts a docstring in place."""
    lines[:] = fields("\n".join(lines), what)


def short_signature(
    app: object, what: str, name: str, found: object, options: object, signature: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """Shortens the signatures of classes; returns None to keep a signature.

    Configs get none, because their fields are listed below. A long signature lists parameter names without types.
    """
    if what != "class" or not inspect.isclass(found) or signature is None:
        return None
    if issubclass(found, BaseModel):
        return "", None
    if len(signature) <= LONG_SIGNATURE:
        return None
    return f"({', '.join(inspect.signature(found).parameters)})", None


def with_small_sidebar(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Limits the sidebar to a page's ancestors and their children; a full tree would take most of the build time."""
    whole = context["toctree"]
    context["toctree"] = lambda **options: whole(**{**options, "collapse": True})


def resolved(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.TextElement
) -> nodes.reference | nodes.TextElement | None:
    """Resolves a type by its unqualified name: to its place in the reference, or to plain text if it has none.

    A name that occurs neither in rlrun nor in the packages it uses stays unresolved, and Sphinx reports it.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].partition("[")[0]  # Sphinx 9 splits some types at their commas
    last = target.rpartition(".")[2]
    objects = env.domains.python_domain.objects
    places = [name for name in objects if name.rpartition(".")[2] == last and objects[name].objtype != "method"]
    if len(places) == 1:
        entry = objects[places[0]]
        from sphinx.util.nodes import make_refnode

        return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, text, places[0])
    known = target.partition(".")[0] in OTHERS or target in vars(builtins) or last in names_of_package()
    return text if known else None


@functools.cache
def names_of_package() -> frozenset[str]:
    """Returns all names that modules of rlrun define or import."""
    found: set[str] = set()
    for path in (ROOT / "rlrun").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.ImportFrom | ast.Import):
                found.update(alias.asname or alias.name for alias in node.names)
            elif isinstance(node, ast.Assign):
                found.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return frozenset(found)
