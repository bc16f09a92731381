"""Every command that README and docs tell a reader to type exists, with its options, files and make targets."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from rlrun.cli.main import COMMANDS, cli

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "examples", "scripts")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / folder / "README.md" for folder in FOLDERS),
]
LOOKS = ("algorithms", "config", "docs", "envs", "examples", "metrics", "plan", "schema", "validate")
"""Commands that show what is installed or shipped, within a second."""
WAITS = re.compile(r"^(play|serve|client)\b|--watch|--delete|--address|s3://")
"""Lines that wait for a person or another machine."""
SHELL_BLOCK = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def documented(program: str) -> list[tuple[str, list[str]]]:
    """Returns each line (page, words after the program) of the pages' shell blocks that calls a program."""
    found = []
    for page in PAGES:
        for block in SHELL_BLOCK.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line.removeprefix("$ "), comments=True)
                if words and Path(words[0]).name == program:
                    found.append((page.name, words[1:]))
    return found


def line_id(value: object) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)


def option_names(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts} | {"-h", "--help"}


def test_the_checks_find_commands_in_the_pages_and_the_readme() -> None:
    pages = {page for page, _ in documented("rlrun")}
    assert {"README.md", "yaml.md", "checkpoints.md", "extending.md"} <= pages
    assert ["train"] in [words for page, words in documented("make") if page == "README.md"]


@pytest.mark.parametrize(("page", "words"), documented("rlrun"), ids=line_id)
def test_a_documented_command_exists_and_has_the_documented_options(page: str, words: list[str]) -> None:
    context = click.Context(cli)
    if words[0].startswith("-"):
        assert words[0] in option_names(cli) | {"--version"}
        return
    assert words[0] in COMMANDS
    command = cli.get_command(context, words[0])
    if isinstance(command, click.Group):
        command = command.get_command(context, words[1])
    assert command is not None
    options = {word.split("=")[0] for word in words[1:] if re.fullmatch(r"--?[a-z-]+(=.*)?", word)}
    assert options <= option_names(command)


def looking_lines() -> list[list[str]]:
    """Returns the documented lines that only read, and use no files except shipped ones."""
    lines = [words[: words.index(">")] if ">" in words else words for _, words in documented("rlrun")]
    named = [line for line in lines if line[0] in LOOKS and "--copy" not in line]
    different = {tuple(line): line for line in named}.values()
    return [line for line in different if all((ROOT / word).exists() for word in line if word.endswith(".yaml"))]


def scratch(folder: Path) -> Path:
    """Returns a folder in which the guides' lines find the files that they name."""
    for name in ("configs", "examples"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.mark.parametrize("words", looking_lines(), ids=line_id)
def test_documented_read_only_commands_succeed(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scratch(tmp_path))
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output


@pytest.mark.regress
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_on_a_page_run_in_order_without_crashing(page: Path, tmp_path: Path) -> None:
    """A line may name a file or a run of the reader's own, which is a usage error here; no line may fail otherwise."""
    lines = [words for name, words in documented("rlrun") if name == page.name and not WAITS.search(" ".join(words))]
    scratch(tmp_path)
    for words in lines:
        call = [sys.executable, "-m", "rlrun", *words[: words.index(">") if ">" in words else None]]
        done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode in (0, 2), (words, done.stderr[-2000:])


@pytest.mark.parametrize(("page", "words"), documented("rlrun"), ids=line_id)
def test_spec_files_named_under_configs_and_examples_exist(page: str, words: list[str]) -> None:
    files = [word for word in words if re.fullmatch(r"(configs|examples)/.*\.yaml", word)]
    assert [name for name in files if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(("page", "words"), documented("make"), ids=line_id)
def test_documented_make_targets_and_variables_exist(page: str, words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for word in words:
        name, is_variable, _ = word.partition("=")
        pattern = rf"^{name} \?=" if is_variable else rf"^{name}:"
        assert re.search(pattern, makefile, re.MULTILINE), word


def test_test_files_named_in_the_makefile_exist() -> None:
    named = set(re.findall(r"\btests/[\w/.]*\w", (ROOT / "Makefile").read_text()))
    assert "tests/integration/test_resumed_runs.py" in named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_modules_run_in_the_documentation_exist() -> None:
    pages = [
        *PAGES,
        ROOT / "Makefile",
        ROOT / ".ci/run",
        *(ROOT / name / "README.md" for name in ("benchmarks", "scripts")),
    ]
    called = {name for page in pages for name in re.findall(r"-m ((?:benchmarks|scripts)\.[\w.]+\w)", page.read_text())}
    assert {"benchmarks.all", "scripts.results"} <= called
    called -= {"benchmarks.TOPIC.run"}
    places = {name: ROOT / name.replace(".", "/") for name in called}
    is_there = {
        name: path.with_suffix(".py").is_file() or (path / "__main__.py").is_file() for name, path in places.items()
    }
    assert [name for name, found in is_there.items() if not found] == []


def test_every_module_named_in_the_glossary_exists() -> None:
    named = re.findall(r"`(rlrun(?:\.\w+)+)`", (ROOT / "docs" / "concepts.md").read_text("utf-8"))
    assert len(named) > 40
    assert [name for name in named if importlib.util.find_spec(name) is None] == []


@pytest.mark.parametrize(
    ("page", "listed"),
    [
        ("docs/README.md", "docs/*.md"),
        ("benchmarks/README.md", "benchmarks/*/run.py"),
        ("scripts/README.md", "scripts/*.py"),
        ("examples/README.md", "examples/*.yaml"),
    ],
)
def test_a_folders_readme_lists_the_folders_contents(page: str, listed: str) -> None:
    text = (ROOT / page).read_text()
    files = [path for path in ROOT.glob(listed) if path.name not in ("README.md", "results_paired_sb3.py")]
    names = [f"`{path.parent.name}`" if path.name == "run.py" else path.name for path in files]
    assert len(names) > 4
    assert [name for name in names if name not in text] == []


def test_the_nine_examples_state_their_number_in_their_first_line() -> None:
    rows = re.findall(r"^\| (\d) \| `([^`]+)` \|", (ROOT / "examples" / "README.md").read_text(), re.MULTILINE)
    assert [int(number) for number, _ in rows] == [*range(1, 10)]
    heads = {name: (ROOT / "examples" / name).read_text().partition("\n")[0] for _, name in rows}
    assert [name for number, name in rows if f"Example {number}: " not in heads[name]] == []
