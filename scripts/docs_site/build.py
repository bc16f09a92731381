"""Builds the site: writes the pages for Sphinx, runs Sphinx, and puts the Markdown next to the HTML."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from sphinx.cmd.build import main as sphinx

from scripts.docs_site.agents import llms_text
from scripts.docs_site.contents import Contents, contents
from scripts.docs_site.page import ROOT

BUILD = ROOT / "build" / "docs"
SOURCES, HTML, DOCTREES = BUILD / "sources", BUILD / "html", BUILD / "doctrees"
HERE = Path(__file__).parent


def build() -> int:
    """Builds the site from scratch; returns the exit status, which is 1 if there was a warning."""
    shutil.rmtree(BUILD, ignore_errors=True)
    found = contents()
    write_sources(found)
    words = ["-W", "--keep-going", "-n", "-q", "-j", "auto", "-c", str(HERE), "-d", str(DOCTREES), "-b", "html"]
    status = sphinx([*words, str(SOURCES), str(HTML)])
    write_markdown(found)
    print(f"{len(found.pages)} pages: {HTML / 'index.html'}")
    return status


def write_sources(found: Contents) -> None:
    """Writes the input of Sphinx: Markdown and pictures."""
    for page in found.pages.values():
        write(SOURCES / f"{page.name}.md", page.sources())
    for address, picture in found.places.images.items():
        (SOURCES / address).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, SOURCES / address)


def write_markdown(found: Contents) -> None:
    """Writes the Markdown of each page next to its HTML, llms.txt, and the summaries for search results."""
    for page in found.pages.values():
        write(HTML / f"{page.name}.md", page.markdown)
    for address, picture in found.places.images.items():
        (HTML / address).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, HTML / address)
    write(HTML / "llms.txt", llms_text(found))
    summaries = {page.name: page.summary for page in found.pages.values() if page.summary}
    write(HTML / "_static" / "summaries.js", f"const pageSummaries = {json.dumps(summaries)};\n")


def write(path: Path, text: str) -> None:
    """Writes text to a file, and creates its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
