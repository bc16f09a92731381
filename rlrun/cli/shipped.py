"""Commands that print material shipped with rlrun: examples, documentation, JSON Schema, and completion scripts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

from rlrun.cli.json_document import print_json, print_result, wants_json
from rlrun.cli.options import json_option
from rlrun.cli.tables import echo, stdout_width, table

REACH = "must reach"

NO_TARGETS = ("seeds", "passes", "last_evaluations", "regression_floor")
"""Keys of `expect` that say how targets are judged."""

HOW_TO = {
    "bash": '# Put this into ~/.bashrc:  eval "$(rlrun completion bash)"',
    "zsh": '# Put this into ~/.zshrc:  eval "$(rlrun completion zsh)"',
    "fish": "# Write this into ~/.config/fish/completions/rlrun.fish",
}


_ADDS_IN_BASH = "COMPREPLY+=($value)"

_FILES = {"client": "client.py", "wrapper": "env_client.py"}


@click.command()
@click.option(
    "--print",
    "printed",
    type=click.Choice([*_FILES]),
    is_flag=False,
    flag_value="client",
    required=True,
    help="Print the client, or the wrapper that runs a Gymnasium env through it.",
)
def client(printed: str) -> None:
    """Print the source code of a client for external simulators.

    The client connects to the server of `env: {external: ...}`.
    `rlrun client --print > rlrun_client.py` writes the client, which runs on Python
    3.7 or later without other packages. `rlrun client --print wrapper >
    rlrun_env_client.py` writes a script that runs a Gymnasium env through the
    client; it needs NumPy and Gymnasium.
    """
    import rlrun.engine.external

    folder = Path(rlrun.engine.external.__file__).parent
    echo((folder / _FILES[printed]).read_text(encoding="utf-8").rstrip("\n"))


@click.command()
@click.argument("shell", type=click.Choice(list(HOW_TO)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell."""
    from click.shell_completion import get_completion_class

    shell_class = get_completion_class(shell)
    if shell_class is None:  # a version of click may lack one of the three shells
        raise click.UsageError(f"completion is not available for {shell}")
    group = ctx.find_root().command
    script = shell_class(group, {}, "rlrun", "_RLRUN_COMPLETE").source()
    # A setting's value directly follows its key, so bash must not add a space after `config.lr=`.
    no_space = f"{_ADDS_IN_BASH}\n            [[ $value == *= ]] && compopt -o nospace 2> /dev/null"
    echo(f"{HOW_TO[shell]}\n{script.replace(_ADDS_IN_BASH, no_space)}")


@click.command()
@click.argument("page", required=False)
@json_option("the pages")
def docs(page: str | None) -> None:
    """List the pages of the documentation, or print one.

    The pages are Markdown files; the first line of the list names their folder.
    PAGE is a name in the list, such as `running` or `algorithms/ppo`.
    """
    from rlrun.engine.messages.errors import UsageError
    from rlrun.engine.messages.explain import unknown_name

    pages = _pages()
    if page is None:
        heads = {name: file.read_text(encoding="utf-8").partition("\n")[0] for name, file in pages.items()}
        rows = [[name, head.removeprefix("#").strip()] for name, head in heads.items()]
        listed = [{"page": name, "title": title} for name, title in rows]
        text = f"{_folder('docs')}\n\n{table(['page', 'title'], rows, stdout_width())}"
        print_result({"folder": str(_folder("docs")), "pages": listed}, text)
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        raise UsageError(unknown_name(name, list(pages), "no such page:"))
    text = pages[name].read_text(encoding="utf-8").rstrip("\n")
    print_result({"page": name, "text": text}, text)


def _folder(name: str) -> Path:
    """Folder that the package holds or, in a checkout, links to: `docs` or `examples`."""
    return (Path(__file__).parents[1] / name).resolve()


def _pages() -> dict[str, Path]:
    """Documentation pages by name, pages in subfolders last."""
    folder = _folder("docs")
    files = sorted(folder.rglob("*.md"), key=lambda file: (len(file.relative_to(folder).parts), file))
    return {file.relative_to(folder).with_suffix("").as_posix(): file for file in files}


@click.command()
@click.argument("text", required=False)
@click.option(
    "--copy",
    "copied_to",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Copy the examples of custom algorithms and envs to a new folder instead.",
)
@json_option("the specs")
def examples(text: str | None, copied_to: Path | None) -> None:
    """List the specs that ship with rlrun, or copy examples to edit.

    Each spec is listed with its algorithm, its env and the targets that it must
    reach. With TEXT, only specs with TEXT in one of the columns are listed.
    `rlrun train cartpole/ppo` trains one of them.

    `rlrun examples --copy FOLDER` copies the examples that the documentation
    explains: custom algorithms, envs and networks, and job scripts. Its README.md
    lists them.
    """
    from rlrun.experiments.spec.load import shipped_configs

    if copied_to is not None:
        _copy_examples(copied_to, text)
        return
    found = [row for path in shipped_configs() for row in _rows(path)]
    wanted = (text or "").lower()
    found = [row for row in found if any(wanted in str(value).lower() for value in row.values())]
    if not found and not wants_json():
        echo(f"No spec matches '{text}'; `rlrun examples` lists all.", err=True)
        return
    headings = list(found[0]) if found else []
    listed = table(headings, [list(row.values()) for row in found], stdout_width())
    folder = str(_folder("examples"))
    if text is None:
        listed += f"\n\nMore, with custom algorithms and envs: {folder} (to copy them: rlrun examples --copy FOLDER)"
    print_result({"examples": folder, "specs": found}, listed)


def _copy_examples(folder: Path, text: str | None) -> None:
    """Copies the folder `examples` to a folder that does not exist yet."""
    from rlrun.engine.messages.errors import UsageError

    if text is not None:
        raise click.UsageError(f"--copy copies all examples; leave out '{text}'")
    try:
        shutil.copytree(_folder("examples"), folder, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    except FileExistsError:
        raise UsageError(f"{folder} exists; name a new folder") from None
    readme = folder / "README.md"
    print_result({"folder": str(folder), "readme": str(readme)}, f"Wrote {folder}. {readme} lists the examples.")


def _rows(path: Path) -> list[dict[str, Any]]:
    """Table rows of a file's experiments, without validation, which would require the envs' packages."""
    from rlrun.experiments.spec.titles import algorithm_title, env_title
    from rlrun.experiments.spec.yaml_source import read_document

    rows = []
    for entry in read_document(path).data.values():
        judged = [entry, *entry.get("stages", {}).values()][-1]
        expected = {name: value for name, value in judged.get("expect", {}).items() if name not in NO_TARGETS}
        row = {
            "spec": f"{path.parent.name}/{path.stem}",
            "algorithm": algorithm_title(entry),
            "env": env_title(entry["env"]),
            REACH: ", ".join(f"{name} {value:,}" for name, value in expected.items()),
        }
        rows.append(row)
    return rows


@click.command()
def schema() -> None:
    """Print the JSON Schema of spec files, for editors.

    Save it with `rlrun schema > rlrun.schema.json`, and name it in the first line of a
    spec, as `rlrun init` does: `# yaml-language-server: $schema=rlrun.schema.json`. VS
    Code with the YAML extension then completes and checks specs.
    """
    from rlrun.experiments.spec.schema import json_schema

    print_json(json_schema())
