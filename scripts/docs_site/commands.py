"""A page for each command, generated from click: help, options, exit codes, and examples from the guides."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import click

from rlrun.cli.main import SECTIONS, cli
from rlrun.engine.messages.errors import ExitCode
from scripts.docs_site.page import Page, table

COLUMNS = 88
SHELL = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MANY_EXAMPLES = 8
CODES = ", ".join(f"`{int(code)}` {code.name.lower().replace('_', ' ')}" for code in ExitCode)


def command_pages(written: dict[str, Page]) -> dict[str, Page]:
    """Returns a page for each command and an overview page, by name.

    Args:
        written: The written pages; lines of their shell blocks become examples.
    """
    pages, index = {}, ["# Commands", "`rlrun COMMAND --help` prints the same in a terminal."]
    used = examples(written)
    for section, names in SECTIONS.items():
        rows = []
        for name in names:
            command = command_named(name)
            pages[f"commands/{name}"] = command_page(name, command, used.get(name, {}))
            rows.append([f"[`rlrun {name}`](commands/{name}.md)", command.get_short_help_str(200)])
        index += [f"## {section}\n", table(["command", "does"], rows)]
    return {"commands": Page("commands", "\n\n".join(index), children=list(pages)), **pages}


def command_named(name: str) -> click.Command:
    """Returns the click command with this name."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def command_page(name: str, command: click.Command, used: dict[str, str]) -> Page:
    """Returns the page of a command, with a section for each subcommand."""
    text = [f"# `rlrun {name}`", *described(f"rlrun {name}", command)]
    if isinstance(command, click.Group):
        for other, below in command.commands.items():
            text += [f"## `rlrun {name} {other}`", *described(f"rlrun {name} {other}", below, deep=True)]
    text += ["## Exit codes", f"{CODES}. [What they mean](../running.md#exit-codes)."]
    if used:
        pages = ", ".join(dict.fromkeys(used.values()))
        text += ["## Examples", "\n".join(["```sh", *used, "```"]), f"From {pages}."]
    return Page(f"commands/{name}", "\n\n".join(text) + "\n")


def described(name: str, command: click.Command, *, deep: bool = False) -> Iterator[str]:
    """Yields the help of a command, its usage, and a table of its options."""
    context = click.Context(command, info_name=name)
    level, of = ("###", f" of `{name}`") if deep else ("##", "")
    yield from paragraphs(command.help or "")
    yield f"{level} Usage{of}\n\n```text\n{' '.join([name, *command.collect_usage_pieces(context)])}\n```"
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    if options:
        yield f"{level} Options{of}\n\n" + table(["option", "meaning"], [option_row(one, context) for one in options])


def option_row(option: click.Option, context: click.Context) -> list[str]:
    """Returns an option's cells: its names and value type, and its help with default and range."""
    names, meaning = option.get_help_record(context) or ("", "")
    return [f"`{names}`", re.sub(r"  (\[.*\])$", r" *\1*", meaning.replace("*", "\\*").replace("<", "&lt;"))]


def paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs of a command's help; paragraphs that click does not rewrap become code."""
    for part in textwrap.dedent(text).strip().split("\n\n"):
        if part.lstrip().startswith("\b"):
            yield "```sh\n" + textwrap.dedent(part.lstrip().removeprefix("\b").strip("\n")) + "\n```"
        else:
            yield " ".join(part.split()).replace("<", "&lt;").replace("*", "\\*")


def examples(written: dict[str, Page]) -> dict[str, dict[str, str]]:
    """Returns lines of the guides' shell blocks by command, each with a link to its page."""
    found: dict[str, dict[str, str]] = {}
    for page in sorted(written.values(), key=lambda page: (page.name != "index", page.name.count("/"))):
        for block in SHELL.findall(page.markdown):
            for line in block.replace("\\\n", " ").splitlines():
                call = re.match(r"(?:\$ )?(rlrun ([a-z][\w-]*)\b.*)", line)
                if call and len(lines := found.setdefault(call[2], {})) < MANY_EXAMPLES:
                    lines.setdefault(in_columns(call[1]), f"[{page.title}](../{page.name}.md)")
    return found


def in_columns(call: str) -> str:
    """Returns a command in lines of at most 88 columns: a long comment moves above it, and its options wrap.

    Examples:
        >>> print(in_columns("rlrun train spec.yaml  # " + "a" * 80))
        # aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        rlrun train spec.yaml
    """
    call, mark, comment = call.partition(" # ")
    call, comment = " ".join(call.split()), mark.lstrip() + comment
    if len(call) + len(comment) + 2 <= COLUMNS:
        return f"{call}  {comment}".rstrip()
    lines = [""]
    for word in re.split(" (?=-)", call):
        if len(lines[-1]) + len(word) + 3 > COLUMNS:
            lines.append(f"  {word}")
        else:
            lines[-1] = f"{lines[-1]} {word}".lstrip()
    return "\n".join([*([comment] if comment else []), " \\\n".join(lines)])
