"""Docstrings as Sphinx reads them: their Markdown becomes reStructuredText, their sections fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from sphinx.config import Config as SphinxConfig
from sphinx.ext.napoleon import Config
from sphinx.ext.napoleon.docstring import GoogleDocstring

SECTIONS = cast(SphinxConfig, Config(napoleon_use_ivar=True))  # it reads nothing else of Sphinx's settings
LITERAL = re.compile(r"(`+)([^`]+)\1(\w?)")


def fields(docstring: str, what: str) -> list[str]:
    """Lines of reStructuredText of a docstring.

    Args:
        docstring: A docstring in Google's style.
        what: Kind of the object, as autodoc names it.
    """
    text = rst(docstring)
    if what in ("attribute", "data", "property"):  # where a text up to a colon would be taken for a type
        return text.splitlines()
    return list(GoogleDocstring(text.splitlines(), SECTIONS, what=what).lines())


def rst(markdown: str) -> str:
    r"""Text with the marks of reStructuredText: code in double backticks, other marks escaped.

    Examples:
        >>> print(rst("A `Flow`s item * 2, `done_` or |e|."))
        A ``Flow``\ s item \* 2, ``done_`` or \|e\|.
    """
    return "\n\n".join(part if ">>>" in part else "".join(_marked(part)) for part in markdown.split("\n\n"))


def _marked(text: str) -> Iterator[str]:
    place = 0
    for literal in LITERAL.finditer(text):
        yield _escaped(text[place : literal.start()])
        code = " ".join(literal[2].split())
        yield f"``{code}``" + (f"\\ {literal[3]}" if literal[3] else "")
        place = literal.end()
    yield _escaped(text[place:])


def _escaped(text: str) -> str:
    return re.sub(r"(\w)_(?!\w)", r"\1\\_", re.sub(r"([*|])", r"\\\1", text))
