"""``rlrun docs [PAGE]``: the documentation that ships with rlrun."""

from __future__ import annotations

from pathlib import Path

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import json_option
from rlrun.cli.tables import stdout_width, table


@click.command()
@click.argument("page", required=False)
@json_option("the pages")
def docs(page: str | None) -> None:
    """List the pages of the documentation, or print one.

    They are Markdown files, in the folder on the first line. PAGE is one of the
    list, such as `running` or `algorithms/ppo`.
    """
    from rlrun.engine.messages.errors import UsageError
    from rlrun.engine.messages.explain import unknown_name

    pages = _pages()
    if page is None:
        heads = {name: file.read_text(encoding="utf-8").partition("\n")[0] for name, file in pages.items()}
        rows = [[name, head.removeprefix("#").strip()] for name, head in heads.items()]
        listed = [{"page": name, "title": title} for name, title in rows]
        text = f"{_folder()}\n\n{table(['page', 'title'], rows, stdout_width())}"
        print_result({"folder": str(_folder()), "pages": listed}, text)
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        raise UsageError(unknown_name(name, list(pages), "there is no page"))
    text = pages[name].read_text(encoding="utf-8").rstrip("\n")
    print_result({"page": name, "text": text}, text)


def _folder() -> Path:
    """Folder of the documentation pages, in the checkout or in the installed package."""
    return (Path(__file__).parents[1] / "docs").resolve()


def _pages() -> dict[str, Path]:
    """Documentation pages by name, pages in subfolders last."""
    folder = _folder()
    files = sorted(folder.rglob("*.md"), key=lambda file: (len(file.relative_to(folder).parts), file))
    return {file.relative_to(folder).with_suffix("").as_posix(): file for file in files}
