"""Written pages: the repository's Markdown files and notebooks, in the sections and the order of docs/README.md."""

from __future__ import annotations

import os
import re
from pathlib import Path

from scripts.docs_site.notebook_pages import notebook_page
from scripts.docs_site.page import FENCED, ROOT, Page
from scripts.docs_site.places import LINK, Places

ORDER = ROOT / "docs" / "README.md"
UNKNOWN_LANGUAGES = re.compile(r"^```(mermaid|csv)$", re.MULTILINE)
"""Blocks in languages that Pygments does not know."""
LAST_SECTION = "The project"
"""Section for pages outside docs/ that the README links to, such as the changelog."""


def written_pages(places: Places) -> dict[str, Page]:
    """Returns the pages of all Markdown files and notebooks, by name."""
    pages = {}
    for file, name in places.names.items():
        text, pictures = notebook_page(file) if file.suffix == ".ipynb" else (file.read_text(encoding="utf-8"), {})
        text = UNKNOWN_LANGUAGES.sub("```text", text)
        pages[name] = Page(name, places.with_links(text, file), instead=pictures)
    return pages


def sections(places: Places, pages: dict[str, Page]) -> dict[str, list[str]]:
    """Returns the page names of each section of the sidebar, and sets the children of pages.

    A page in a folder, such as `algorithms/ppo`, is a child of the page with the folder's name.

    Raises:
        ValueError: A page is in no section.
    """
    parts = re.split(r"^## ", ORDER.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {part.partition("\n")[0].strip(): linked(part, ORDER, places) for part in parts}
    readme = ROOT / "README.md"
    of_docs = {name for file, name in places.names.items() if ORDER.parent in file.parents}
    found[LAST_SECTION] = [name for name in linked(readme.read_text("utf-8"), readme, places) if name not in of_docs]
    placed = {"index", "guides"}
    for section, names in found.items():
        found[section] = [name for name in names if name not in placed and folder(name) not in pages]
        placed.update(found[section])
        for name in found[section]:
            pages[name].children = children(name, places)
            placed.update(pages[name].children)
    if lost := sorted(set(pages) - placed):
        raise ValueError(f"in no section of docs/README.md: {', '.join(lost)}")
    return {section: names for section, names in found.items() if names}


def children(name: str, places: Places) -> list[str]:
    """Returns the pages in the folder with a page's name, in the order of the links in docs/README.md and the page."""
    (file,) = [file for file, own in places.names.items() if own == name]
    order = [linked(source.read_text(encoding="utf-8"), source, places) for source in (ORDER, file)]
    return list(dict.fromkeys(other for names in order for other in names if folder(other) == name))


def folder(name: str) -> str:
    """Returns the folder in a page's name, "" if there is none."""
    return name.rpartition("/")[0]


def linked(text: str, file: Path, places: Places) -> list[str]:
    """Returns the names of the written pages that a text links to, in order."""
    links = (link.partition("#")[0] for link in LINK.findall(FENCED.sub("", text)) if ":" not in link)
    targets = (Path(os.path.normpath(file.parent / link)) for link in links if link)
    return list(dict.fromkeys(places.names[target] for target in targets if target in places.names))
