"""A page of the site: its name, its Markdown, and additions for the HTML."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
"""Root of the repository."""

FENCED = re.compile(r"(^ *````.*?^ *````$|^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
"""A fenced code block; `FENCED.split` alternates between text and code."""


@dataclass
class Page:
    """A page of the site.

    Attributes:
        name: Its address without a suffix, such as "algorithms/ppo".
        markdown: Its text, which is also published as Markdown.
        children: Names of the pages below it in the sidebar, in order.
        extra: Additions to the HTML, as Markdown, by the heading of the section that they end: curves, dataflows.
        instead: Replacements in the HTML for parts of the text, as Markdown: pictures of notebooks, table of results.
        searchable: Whether the search indexes its text.
        keywords: Additional words that lead a search to this page.
    """

    name: str
    markdown: str
    children: list[str] = field(default_factory=list)
    extra: dict[str, str] = field(default_factory=dict)
    instead: dict[str, str] = field(default_factory=dict)
    searchable: bool = True
    keywords: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Its first heading, without markup."""
        return plain(self.markdown.removeprefix("---").partition("# ")[2].partition("\n")[0])

    @property
    def summary(self) -> str:
        """First sentence of its text; "" if it begins with a table or code."""
        for paragraph in FENCED.sub("", self.markdown).partition("\n")[2].split("\n\n"):
            text = plain(" ".join(paragraph.split()))
            if text and not text.startswith(("#", "|", "-", "1.", "!", "<", ":", "    ")):
                return re.split(r"(?<=[.?])\s(?=[A-Z])", text)[0].rstrip(":")
        return ""

    def sources(self) -> str:
        """Its text for Sphinx, with `extra`, `instead` and the list of its children."""
        about: dict[str, object] = {} if self.searchable else {"nosearch": True}
        if self.summary:
            about["myst"] = {"html_meta": {"description": self.summary}}
        head = ["---", yaml.safe_dump(about) + "---"] if about else []
        text = self.markdown.rstrip("\n") + "\n"
        if self.keywords:
            entries = "".join(f"   ! single: {word}\n" for word in self.keywords)
            text = text.replace("\n", f"\n\n```{{eval-rst}}\n.. index::\n{entries}```\n", 1)
        for part, other in self.instead.items():
            text = text.replace(part, other, 1)
        for heading, extra in self.extra.items():
            text = inserted(text, heading, extra)
        return "\n".join([*head, text, *([toctree(self.children)] if self.children else [])])


def plain(text: str) -> str:
    """Text of Markdown, without the markup of links, emphasis and code."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "")
    return re.sub(r"\*+(?=\w)|(?<=\w)\*+", "", text).strip()


def toctree(names: list[str], caption: str = "") -> str:
    """Hidden list of pages, from which Sphinx builds the sidebar."""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["```{toctree}", *options, "", *(f"/{name}" for name in names), "```", ""])


def inserted(text: str, heading: str, extra: str) -> str:
    """Text with an addition at the end of a section, or at the end of the text if the heading is ""."""
    if not heading:
        return f"{text}\n{extra}\n"
    before, found, rest = text.partition(f"\n## {heading}\n")
    if not found:
        raise ValueError(f"no section {heading!r}")
    parts = FENCED.split(rest)
    for number in range(0, len(parts), 2):
        if (end := parts[number].find("\n## ")) >= 0:
            parts[number] = f"{parts[number][:end]}\n{extra}\n{parts[number][end:]}"
            return before + found + "".join(parts)
    return f"{text}\n{extra}\n"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Markdown table."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in (head, *rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (cells[0], ["--"] * len(head), *cells[1:]))


def raw_html(html: str) -> str:
    """Block of HTML that Sphinx copies unchanged."""
    return f"```{{raw}} html\n{html}\n```\n"
