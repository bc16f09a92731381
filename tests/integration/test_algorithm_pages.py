"""Every built-in algorithm has a page with its current settings, and the index links to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlrun.engine.settings.registry import BUILT_IN, algorithm_class
from scripts.docs_site.algorithms import INDEX, index_text

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted((DOCS / "algorithms").glob("*.md"))
SECTIONS = ["Idea", "Pseudo-code", "Implementation", "Results", "When not to use it"]


def index() -> dict[str, Path]:
    """Returns the page of each algorithm in the index."""
    rows = re.findall(r"^\| \[`(\w+)`\]\((algorithms/\w+\.md)\) \|", INDEX.read_text(), re.MULTILINE)
    return {name: DOCS / page for name, page in rows}


def test_the_index_links_to_exactly_the_algorithm_pages() -> None:
    assert sorted(index()) == sorted(BUILT_IN)
    assert sorted(set(index().values())) == PAGES


def test_the_table_of_algorithms_is_up_to_date() -> None:
    assert INDEX.read_text() == index_text(), "run `python -m scripts.docs_site pages`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_an_algorithm_page_has_the_required_sections_in_order(page: Path) -> None:
    sections = re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE)
    assert [section for section in sections if section in SECTIONS] == SECTIONS
    if page.stem != "random":
        assert sections[1] == "Formula"


def test_the_title_of_an_algorithms_page_names_the_algorithm() -> None:
    titles = {name: page.read_text().partition("\n")[0] for name, page in index().items()}
    assert [name for name, title in titles.items() if f"`{name}`" not in title] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_scores_quoted_on_an_algorithm_page_match_the_results_page(page: Path) -> None:
    results: dict[str, list[str]] = {}
    rows = re.compile(r"^\| `(configs/\S+)`.*? \| .*? \| (\S+) \[", re.MULTILINE)
    for spec, figure in rows.findall((DOCS / "results.md").read_text()):
        results.setdefault(spec, []).append(figure)
    quoted = re.findall(r"`(configs/\S+)`\s+reaches\s+(-?[\d,]+\.?\d*)", page.read_text())
    assert [(spec, figure) for spec, figure in quoted if figure not in results[spec]] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_functions_that_an_algorithm_page_links_to_exist_in_the_linked_files(page: Path) -> None:
    linked = re.findall(r"\[`(\w+)`\]\((\S+\.py)\)", page.read_text())
    assert linked
    for name, file in linked:
        assert re.search(rf"^ *(def|class) {name}\b", (page.parent / file).read_text(), re.MULTILINE), (name, file)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_settings_listed_on_an_algorithm_page_exist_with_the_stated_defaults(page: Path) -> None:
    configs = [algorithm_class(name).Config().to_data() for name, own in index().items() if own == page]
    said = 0
    for name, default in defaults_in_pseudo_code(page.read_text()):
        said += 1
        values = [value for config in configs if (value := setting(config, name)) is not ...]
        assert default in values, f"{name}: {default}"
    tables = re.findall(
        r"^\| setting \| (?:default|`\w+`) .*\n\|[-|]+\|\n((?:\|.*\n)+)", page.read_text(), re.MULTILINE
    )
    for row in "".join(tables).splitlines():
        said += 1
        names, default = row.strip("| ").split(" | ")[:2]
        for name in re.findall(r"`([\w.]+)`", names):
            values = [value for config in configs if (value := setting(config, name)) is not ...]
            assert values, f"no setting {name}"
            assert default.startswith("as ") or any(is_told(value, row) for value in values), row
    assert said


def defaults_in_pseudo_code(text: str) -> Iterator[tuple[str, Any]]:
    """Yields the settings named in comments of pseudo-code, with the defaults that they state."""
    section = text.partition("\n## Pseudo-code\n")[2].partition("\n## ")[0]
    for block in re.findall(r"^```text\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
        for comment in re.findall(r"# (\w[\w.]*: .*)$", block, re.MULTILINE):
            found = yaml.safe_load("{" + comment + "}")
            yield from found.items()


def setting(config: Any, path: str) -> Any:
    """Returns a setting's value; an ellipsis if there is none of this name."""
    for name in path.split("."):
        if not isinstance(config, dict) or name not in config:
            return ...
        config = config[name]
    return config


def is_told(value: Any, row: str) -> bool:
    """Whether a row of a table states a default; schedules and sections are described in words."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value] in row
    if isinstance(value, int | float):
        return float(value) in [float(number.replace(",", "")) for number in re.findall(r"\d[\d,.]*\b", row)]
    return not isinstance(value, str) or value in row
