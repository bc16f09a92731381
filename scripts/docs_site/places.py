"""Maps files of the repository to pages of the site, and adjusts links."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath

from scripts.docs_site.page import FENCED, ROOT

LINK = re.compile(r"(?<=\]\()[^()\s]+(?=\))")
IMAGES = (".svg", ".png", ".webp", ".gif")
GALLERY = ROOT / "docs" / "images" / "gallery"
"""Folder with the gallery's videos; the build generates the gallery's page."""
FOLDERS = ("examples", "benchmarks", "scripts")
"""Folders whose READMEs are pages."""


class Places:
    """Maps files to page names, and collects the files that pages link to.

    Attributes:
        names: Name of the page of each Markdown file and notebook.
        shown: Linked files and folders of the repository, which get pages that show them.
        images: Pictures on the pages, by their address on the site.
    """

    def __init__(self) -> None:
        docs = ROOT / "docs"
        files = sorted([*docs.rglob("*.md"), *docs.rglob("*.ipynb")])
        self.names = {file: file.relative_to(docs).with_suffix("").as_posix() for file in files}
        self.names |= {docs / "README.md": "guides", docs / "search.md": "searching"}  # "search" is Sphinx's own page
        own = {file: file.stem.lower() for file in sorted(ROOT.glob("*.md")) if file.name != "AGENTS.md"}
        self.names |= own | {ROOT / "README.md": "index"}
        self.names |= {ROOT / folder / "README.md": folder for folder in FOLDERS}
        self.shown: set[Path] = set()
        self.images: dict[str, Path] = {}

    def with_links(self, text: str, file: Path) -> str:
        """Text of a file of the repository, with its links adjusted to the site."""
        parts = FENCED.split(text)
        for number in range(0, len(parts), 2):
            parts[number] = LINK.sub(lambda link: self.target(link[0], file), parts[number])
        return "".join(parts)

    def target(self, link: str, file: Path) -> str:
        """The link to use on a file's page, for a link in the file.

        Raises:
            ValueError: The link leads nowhere.
        """
        if re.match(r"\w+:|#", link):
            return link
        path, _, heading = link.partition("#")
        target = Path(os.path.normpath(file.parent / path))
        if not target.exists():
            raise ValueError(f"{file.relative_to(ROOT)}: links to {link}, which does not exist")
        return relative(self._address(target, heading), self.names[file])

    def _address(self, target: Path, heading: str) -> str:
        """Address of a file on the site, with an anchor for the heading."""
        anchor = f"#{heading}" if heading else ""
        if target == GALLERY:
            return "gallery.md"
        if target in self.names:
            return f"{self.names[target]}.md{anchor}"
        if target.suffix in IMAGES:
            address = f"images/{target.name}"
            self.images[address] = target
            return address
        parts = target.relative_to(ROOT).parts
        if parts[0] == "configs":
            is_spec = len(parts) == 3 and target.suffix == ".yaml"
            return f"specs/{parts[1]}.md" + (f"#{spec_heading(target)}" if is_spec else "")
        self.shown.add(target)
        return f"{file_page(target)}.md"


def file_page(target: Path) -> str:
    """Name of the page that shows a file or lists a folder, such as "files/rlrun/engine/flow/flow-py"."""
    return f"files/{target.relative_to(ROOT).as_posix().replace('.', '-')}"


def spec_heading(spec: Path) -> str:
    """Anchor of a shipped spec on the page of its folder."""
    return re.sub(r"[^\w-]", "", spec.name)


def relative(address: str, page: str) -> str:
    """Address relative to a page."""
    path, found, heading = address.partition("#")
    return PurePosixPath(os.path.relpath(path, PurePosixPath(page).parent)).as_posix() + found + heading
