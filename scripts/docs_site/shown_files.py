"""Pages that show files: the shipped specs by folder, and other files that the guides link to."""

from __future__ import annotations

import ast
from pathlib import Path

from scripts.docs_site.curves import curves_of
from scripts.docs_site.page import ROOT, Page, raw_html, table
from scripts.docs_site.places import Places, file_page

LANGUAGES = {".py": "python", ".yaml": "yaml", ".sh": "sh", ".sbatch": "sh", ".c": "c"}


def spec_pages() -> dict[str, Page]:
    """Returns a page for each folder in configs/, and an overview page."""
    pages, rows = {}, []
    for folder in sorted(path for path in (ROOT / "configs").iterdir() if path.is_dir()):
        if specs := sorted(folder.glob("*.yaml")):
            page = spec_page(folder, specs)
            pages[page.name] = page
            rows.append([f"[{folder.name}](specs/{folder.name}.md)", " ".join(f"`{spec.stem}`" for spec in specs)])
    text = (
        "# Shipped specs\n\nEvery spec that comes with rlrun, by env. `rlrun examples` lists them in a terminal, and "
        "`rlrun train cartpole/ppo` trains one. [Results](results.md) are those over seeds.\n\n"
    )
    return {"specs": Page("specs", text + table(["folder", "specs"], rows), children=list(pages)), **pages}


def spec_page(folder: Path, specs: list[Path]) -> Page:
    """Returns the page of a folder of specs, with the recorded curves of each spec."""
    page = Page(f"specs/{folder.name}", f"# `configs/{folder.name}`\n")
    for spec in specs:
        path = spec.relative_to(ROOT).as_posix()
        page.markdown += f"\n## {spec.name}\n\n{code(spec)}\n"
        if pictures := curves_of(path):
            page.extra[spec.name] = raw_html(f"<div class='curves'>{''.join(pictures)}</div>")
    return page


def file_pages(places: Places) -> dict[str, Page]:
    """Returns a page for each file and folder that pages link to, and an overview page."""
    found = {file_page(path): path for path in sorted(places.shown)}
    folders = {name: folder_page(name, path, places) for name, path in found.items() if path.is_dir()}
    pages = folders | {name: shown(name, path) for name, path in found.items() if not path.is_dir()}
    rows = [[f"[`{path.relative_to(ROOT)}`]({name}.md)", headline(path)] for name, path in found.items()]
    text = "# Files\n\nThe files of the repository that the guides name.\n\n"
    index = Page("files", text + table(["file", "what it is"], rows), children=list(pages), searchable=False)
    return {"files": index, **pages}


def shown(name: str, path: Path) -> Page:
    """Returns the page that shows a file."""
    return Page(name, f"# `{path.relative_to(ROOT)}`\n\n{code(path)}\n", searchable=False)


def folder_page(name: str, path: Path, places: Places) -> Page:
    """Returns the page that lists the files in a folder."""
    rows = []
    for file in sorted(path.iterdir()):
        if file.name.startswith("__pycache__"):
            continue
        label = f"`{file.name}`"
        if file in places.shown:
            label = f"[{label}]({'../' * name.count('/')}{file_page(file)}.md)"
        rows.append([label, headline(file)])
    return Page(name, f"# `{path.relative_to(ROOT)}`\n\n{table(['file', 'what it is'], rows)}\n", searchable=False)


def code(path: Path) -> str:
    """Code block with the contents of a file."""
    fence = "````"
    return f"{fence}{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8').rstrip()}\n{fence}"


def headline(path: Path) -> str:
    """First line of a Python file's docstring or of a spec's comment, "" for other files."""
    if path.suffix not in (".py", ".yaml"):
        return ""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0].replace("``", "`")
    first = text.partition("\n")[0]
    return first.removeprefix("#").strip() if first.startswith("#") else ""
