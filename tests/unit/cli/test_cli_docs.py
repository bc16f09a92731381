"""Output of `rlrun docs`."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from rlrun.cli.main import cli

DOCS = Path(__file__).parents[3] / "docs"


def docs(*words: str) -> Result:
    return CliRunner().invoke(cli, ["docs", *words])


def test_the_docs_command_prints_the_folder_and_lists_every_page_with_its_title() -> None:
    folder, _, _, *rows = docs().stdout.splitlines()
    assert Path(folder) == DOCS.resolve()
    listed = dict(row.split(maxsplit=1) for row in rows)
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}
    assert listed.keys() == pages
    assert listed["running"] == "Running and monitoring"
    assert all(listed.values())


def test_a_page_can_be_printed_given_its_name_or_path() -> None:
    text = (DOCS / "algorithms/ppo.md").read_text()
    assert docs("algorithms/ppo").stdout == docs("docs/algorithms/ppo.md").stdout == text


def test_an_unknown_page_is_refused_with_the_closest_name(wording) -> None:
    done = docs("runing")
    assert done.exit_code == 2
    assert done.stderr == wording("runing", "running")
