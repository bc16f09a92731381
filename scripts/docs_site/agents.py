"""Writes texts for programs that read documentation: `AGENTS.md` of the repository, and `llms.txt` of the site."""

from __future__ import annotations

from rlrun.cli.main import SECTIONS
from scripts.docs_site.commands import CODES, command_named
from scripts.docs_site.contents import Contents
from scripts.docs_site.page import ROOT, Page
from scripts.docs_site.places import Places
from scripts.docs_site.written import sections, written_pages

AGENTS = ROOT / "AGENTS.md"
SUMMARY = "rlrun trains reinforcement-learning agents from YAML: readable dataflow, Ray Tune, exact resume."

HEAD = f"""# rlrun for coding agents

{SUMMARY}

This page is written by `make docs` from the commands and the guides: edit those.

- Ask the program before you guess: `rlrun config ALGORITHM`, `rlrun metrics ALGORITHM`, `rlrun envs`, `rlrun schema`.
- `rlrun validate FILE` finds all mistakes of a spec, with line and column; `rlrun train FILE --dry-run` lists trials.
- `--json` prints one JSON document on stdout and nothing else.
- Exit codes: {CODES}.
- `rlrun docs` lists the guides, and `rlrun docs PAGE` prints one.
- In a checkout: `make check` runs formatting, lint and types; `make test` the tests. `docs/architecture.md` is the map.
"""


def agents_text() -> str:
    """Text of AGENTS.md: how to get help, the commands, and the guides by reader."""
    places = Places()
    pages = written_pages(places)
    files = {name: file.relative_to(ROOT).as_posix() for file, name in places.names.items()}
    text = [HEAD, "## Commands\n"]
    for section, commands in SECTIONS.items():
        lines = [f"- `rlrun {name}`: {command_named(name).get_short_help_str(100)}" for name in commands]
        text += [f"{section}:\n", *lines, ""]
    text += ["## Guides\n"]
    for section, names in sections(places, pages).items():
        text += [f"{section}:\n", *(f"- [{pages[name].title}]({files[name]})" for name in names), ""]
    return "\n".join(text).rstrip("\n") + "\n"


def write_agents_page() -> None:
    """Writes AGENTS.md."""
    AGENTS.write_text(agents_text(), encoding="utf-8")


def llms_text(contents: Contents) -> str:
    """Text of llms.txt (llmstxt.org): all pages, each with a link to its Markdown and its first sentence."""
    text = ["# rlrun\n", f"> {SUMMARY}\n", "Each page of this site is also there as Markdown, with .md for .html.\n"]
    for section, names in contents.sections.items():
        text.append(f"## {section}\n")
        for name in names:
            page = contents.pages[name]
            text += [line(page), *(line(contents.pages[child]) for child in page.children if page.searchable)]
        text.append("")
    return "\n".join(text)


def line(page: Page) -> str:
    """A page's line in llms.txt."""
    return f"- [{page.title}]({page.name}.md)" + (f": {page.summary}" if page.summary else "")
