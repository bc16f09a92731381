"""Contents of the site: all of its pages, and the sections of its sidebar."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from scripts.docs_site.algorithms import add_names, add_to_algorithms
from scripts.docs_site.api import api_pages
from scripts.docs_site.commands import command_pages
from scripts.docs_site.gallery import gallery_page
from scripts.docs_site.page import Page, toctree
from scripts.docs_site.places import Places
from scripts.docs_site.results import add_to_results
from scripts.docs_site.settings import metrics_page
from scripts.docs_site.shown_files import file_pages, spec_pages
from scripts.docs_site.written import LAST_SECTION, sections, written_pages

REFERENCE = "Reference"
KEYWORDS = Path(__file__).with_name("keywords.yaml")


@dataclass(frozen=True)
class Contents:
    """Contents of the site.

    Attributes:
        pages: The pages by name.
        sections: Names of pages, by section of the sidebar.
        places: Maps files of the repository to places on the site.
    """

    pages: dict[str, Page]
    sections: dict[str, list[str]]
    places: Places


def contents() -> Contents:
    """Gathers all pages."""
    places = Places()
    pages = written_pages(places)
    found = sections(places, pages)
    project = found.pop(LAST_SECTION, [])
    made = {
        **command_pages(pages),
        **{page.name: page for page in (metrics_page(), gallery_page(places))},
        **api_pages(),
        **spec_pages(),
        **file_pages(places),
    }
    if doubled := sorted(pages.keys() & made.keys()):
        raise ValueError(f"the names of these pages are those of generated ones: {', '.join(doubled)}")
    add_to_algorithms(pages)
    add_to_results(pages)
    pages |= made
    for name, words in yaml.safe_load(KEYWORDS.read_text(encoding="utf-8")).items():
        pages[name].keywords += words
    add_names(pages)
    found[REFERENCE] = ["gallery", "commands", "metrics", "api", "specs"]
    found[LAST_SECTION] = [*project, "files"]
    first, *others = found
    for section in others:
        page = section_page(section, [pages[name] for name in found[section]])
        pages[page.name] = page
    lists = [toctree(["guides", *found[first]], first), toctree([section_name(section) for section in others], "More")]
    pages["index"].extra[""] = "\n".join(lists)
    return Contents(pages, found, places)


def section_name(section: str) -> str:
    """Name of a section's page."""
    return f"sections/{section.lower().replace(' ', '_')}"


def section_page(section: str, pages: list[Page]) -> Page:
    """Page of a section of the sidebar: lists its pages with their first sentences."""
    lines = [f"- [{page.title}](../{page.name}.md){f': {page.summary}' if page.summary else ''}" for page in pages]
    text = f"# {section}\n\n" + "\n".join(lines)
    return Page(section_name(section), text, children=[page.name for page in pages], searchable=False)
