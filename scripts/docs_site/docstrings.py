"""Converts docstrings for Sphinx: their Markdown to reStructuredText, their sections to fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from sphinx.config import Config as SphinxConfig
from sphinx.ext.napoleon import Config
from sphinx.ext.napoleon.docstring import GoogleDocstring

SECTIONS = cast(SphinxConfig, Config(napoleon_use_ivar=True))  # napoleon reads no other settings of Sphinx
LITERAL = re.compile(r"(`+)([^`]+)\1(\w?)")


def fields(docstring: str, what: str) -> list[str]:
    """A docstring as lines of reStructuredText.

    Args:
        docstring: A Google-style docstring.
        what: Kind of the object, as autodoc names it.
    """
    text = rst(docstring)
    if what in ("attribute", "data", "property"):  # in these, Napoleon would take text before a colon for a type
        return text.splitlines()
    return list(GoogleDocstring(text.splitlines(), SECTIONS, what=what).lines())


def rst(markdown: str) -> str:
    r"""Markdown as reStructuredText: code in double backticks, other special characters escaped.

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
