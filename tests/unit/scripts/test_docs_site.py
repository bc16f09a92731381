"""The documentation site has all pages in the order of the guides; its tables and pictures match the code."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from rlrun import PPO
from rlrun.cli.main import COMMANDS
from rlrun.engine.flow.concurrently import concurrently
from rlrun.engine.flow.sources.items import from_items
from rlrun.engine.rollout.rollout import Rollout
from rlrun.engine.settings.registry import BUILT_IN
from scripts.docs_site.agents import AGENTS, agents_text
from scripts.docs_site.algorithms import add_names
from scripts.docs_site.api import directive, docstring_below, plugin_names
from scripts.docs_site.commands import COLUMNS, command_named, command_page, command_pages
from scripts.docs_site.contents import KEYWORDS, section_page
from scripts.docs_site.curves import curve_picture
from scripts.docs_site.docstrings import fields, rst
from scripts.docs_site.extension import mathml, short_signature
from scripts.docs_site.notebook_pages import notebook_page
from scripts.docs_site.page import ROOT, Page, inserted
from scripts.docs_site.places import Places
from scripts.docs_site.plan_picture import Picture
from scripts.docs_site.results import RESULTS, add_to_algorithm, table_row
from scripts.docs_site.settings import own_metrics, own_settings
from scripts.docs_site.spec_reference import SPEC_REFERENCE, spec_reference_text
from scripts.docs_site.written import sections, written_pages

GUIDE = ROOT / "docs" / "running.md"


@pytest.fixture(scope="module")
def places() -> Places:
    return Places()


@pytest.fixture(scope="module")
def written(places: Places) -> dict[str, Page]:
    return written_pages(places)


def test_every_hand_written_page_has_exactly_one_place_in_the_sidebar(places: Places, written: dict[str, Page]) -> None:
    found = sections(places, written)
    placed = [name for names in found.values() for name in names]
    placed += [child for name in placed for child in written[name].children]
    assert sorted([*placed, "index", "guides"]) == sorted(written)
    assert written["algorithms"].children[0] == "algorithms/ppo"


def test_no_page_has_the_address_of_a_page_that_sphinx_makes(places: Places) -> None:
    assert not {"search", "genindex"} & set(places.names.values())


def test_a_page_that_no_section_of_the_sidebar_leads_to_is_an_error(wording) -> None:
    places = Places()
    places.names[ROOT / "docs" / "lost.md"] = "lost"
    pages = {**{name: Page(name, "# A page") for name in places.names.values()}}
    with wording.raised(ValueError, "docs/README.md"):
        sections(places, pages)


def test_a_notebook_becomes_a_page_with_its_text_code_and_outputs(tmp_path: Path) -> None:
    file = tmp_path / "sum.ipynb"
    picture = {"output_type": "display_data", "data": {"text/plain": ["<Figure>"], "image/png": "iVBO\nRw0K"}}
    cells = [
        {"cell_type": "markdown", "source": ["# A sum\n", "\n", "Two numbers."]},
        {"cell_type": "code", "source": ["print(1)\n", "2"], "outputs": [{"name": "stdout", "text": ["1\n"]}, picture]},
    ]
    file.write_text(json.dumps({"cells": cells}))
    text, pictures = notebook_page(file)
    shown = "*Picture 1, which the notebook shows*"
    assert text == f"# A sum\n\nTwo numbers.\n\n```python\nprint(1)\n2\n```\n\n```text\n1\n```\n\n{shown}\n"
    assert set(pictures) == {shown}
    assert "src='data:image/png;base64,iVBORw0K'" in pictures[shown]


def test_links_are_rewritten_to_point_to_pages_specs_and_file_pages(wording) -> None:
    places = Places()
    text = (
        "[a](algorithms/ppo.md#settings) [b](../configs/pendulum/tqc.yaml) [c](../rlrun/engine/flow/flow.py) [d](#top)"
    )
    page = ROOT / "docs" / "algorithms" / "ppo.md"
    assert places.with_links(text, GUIDE) == (
        wording("algorithms/ppo.md", "specs/pendulum.md", "files/rlrun/engine/flow/flow-py.md")
    )
    assert places.with_links("[a](../running.md) [b](../../README.md)", page) == "[a](../running.md) [b](../index.md)"
    assert places.shown == {ROOT / "rlrun" / "engine" / "flow" / "flow.py"}
    assert places.with_links("```sh\n[a](nowhere.md)\n```\n", GUIDE) == "```sh\n[a](nowhere.md)\n```\n"


def test_the_error_for_a_broken_link_names_its_page_and_target(wording) -> None:
    with wording.raised(ValueError, "docs/running.md", "nowhere.md"):
        Places().with_links("[a](nowhere.md)", GUIDE)


def test_text_is_inserted_at_the_end_of_a_section_even_if_its_code_contains_headings(wording) -> None:
    text = "# T\n\n## A\n\n```sh\n## no heading\n```\n\n## B\n\nend\n"
    assert inserted(text, "A", "new") == wording()
    assert inserted(text, "B", "new").endswith("end\n\nnew\n")
    with pytest.raises(ValueError, match="no section 'C'"):
        inserted(text, "C", "new")


def test_the_title_and_summary_of_a_page_are_its_heading_and_first_sentence(wording) -> None:
    page = Page("p", "# The `p` page\n\n![x](y.svg)\n\n## Idea\n\nIt [links](a.md) to\n**all**. And more.\n")
    assert (page.title, page.summary) == ("The p page", wording())


def test_each_keyword_leads_to_exactly_one_existing_page(places: Places) -> None:
    keywords = yaml.safe_load(KEYWORDS.read_text())
    assert set(keywords) <= set(places.names.values())
    words = [word.lower() for words in keywords.values() for word in words]
    assert {"mask", "lstm", "resume", "gae"} <= set(words)
    assert len(words) == len(set(words))


@pytest.mark.parametrize(
    ("query", "page"),
    [
        *(("custom environment", "custom_environments"), ("reward scaling", "custom_environments")),
        *(("learning rate", "yaml"), ("early stopping", "yaml"), ("hyperparameter tuning", "searching")),
        *(("save model", "checkpoints"), ("lstm", "recurrent_networks"), ("gpu", "scaling"), ("callback", "hooks")),
        *(("normalize observations", "observations"), ("frame stack", "observations"), ("export onnx", "deploy")),
        *(("mask actions", "actions"), ("checkpoint", "checkpoints")),
        *(("multi-agent", "multi_agent"), ("tensorboard", "running"), ("wandb", "running")),
    ],
)
def test_common_search_terms_are_keywords_of_the_right_guide(query: str, page: str) -> None:
    """If an index entry equals the query, Sphinx lists it first."""
    keywords = yaml.safe_load(KEYWORDS.read_text())
    assert query in [word.lower() for word in keywords[page]]


def test_the_name_of_an_algorithm_is_a_keyword_only_of_the_page_of_that_algorithm(written: dict[str, Page]) -> None:
    pages = {name: Page(name, page.markdown) for name, page in written.items()}
    add_names(pages)
    names = [word for page in pages.values() for word in page.keywords]
    assert sorted(names) == sorted(BUILT_IN)
    assert pages["algorithms/ppo"].keywords == ["ppo"]
    written_words = {word.lower() for words in yaml.safe_load(KEYWORDS.read_text()).values() for word in words}
    assert written_words.isdisjoint(names)


def test_each_command_has_a_page_with_all_its_options(written: dict[str, Page]) -> None:
    pages = command_pages(written)
    assert set(pages) == {"commands", *(f"commands/{name}" for name in COMMANDS)}
    for name in COMMANDS:
        for parameter in command_named(name).params:
            assert all(option in pages[f"commands/{name}"].markdown for option in parameter.opts if option[0] == "-")
    assert "rlrun resume cartpole-ppo" in pages["commands/resume"].markdown


def test_the_page_of_a_command_group_shows_the_usage_of_each_command_in_the_group(wording) -> None:
    text = command_page("dataset", command_named("dataset"), {}).markdown
    assert wording("rlrun dataset split") in text.splitlines()
    assert "rlrun dataset split [OPTIONS]" in text


def test_settings_listed_for_an_algorithm_are_those_that_differ_from_the_common_ones() -> None:
    settings = {row.name: row.default for row in own_settings("ppo")}
    assert settings["gae_lambda"] == "0.95"
    assert "gamma" not in settings
    assert {row.name: row.default for row in own_settings("ppg")}["gamma"] == "0.999"


def test_metrics_listed_for_an_algorithm_omit_the_common_ones() -> None:
    names = {metric.name for metric in own_metrics("ppo")}
    assert "learner/kl" in names
    assert not {"env_steps", "episode_return_mean"} & names


def test_the_picture_of_a_dataflow_draws_each_operator_once_and_branches_side_by_side() -> None:
    numbers, same = from_items([1, 2]).duplicate(2)
    kept = numbers.filter(bool)
    joined = concurrently(kept, same.for_each(str), output=kept)
    picture = Picture(joined.describe())
    by_name = {box.name: box for box in picture.boxes.values()}
    assert picture.columns == 2
    assert (by_name["bool"].x, by_name["str"].x, by_name["concurrently"].x) == (0.5, 1.5, 1.0)
    assert by_name["concurrently"].y > max(by_name["bool"].y, by_name["str"].y) > by_name["from_items"].y
    assert [goes_on for _, goes_on in by_name["concurrently"].above] == [True, False]
    drawn = ElementTree.fromstring(picture.svg("a <flow>"))
    assert len(drawn.findall(".//rect")) == len(picture.boxes)


def test_a_curve_is_drawn_for_each_seed_and_the_mean_curve_ends_with_the_shortest_one() -> None:
    about = {"experiment": "x", "expected": 5.0}
    records = [
        {**about, "curve": [[0, 0.0], [100, 10.0]], "env_steps": 100},
        {**about, "curve": [[0, 0.0], [50, 2.0], [200, 4.0]], "env_steps": 200},
    ]
    lines = ElementTree.fromstring(curve_picture("configs/a/b.yaml", "episode_return_mean", records)).findall(
        "polyline"
    )
    assert [line.get("class") for line in lines] == ["seed", "seed", "gate", "mean"]
    ends = [float(line.get("points", "").split()[-1].split(",")[0]) for line in lines]
    assert ends == [181.0, 312.0, 312.0, 181.0]


def test_a_results_row_names_algorithm_and_env_and_draws_a_missed_gate_above_the_mean_curve() -> None:
    about = {"metric": "episode_return_mean", "expected": 10.0, "seconds": 3.0, "commit": "abcdef0", "env_steps": 100}
    seeds = [
        {**about, "value": 4.0, "curve": [[0, 0.0], [100, 4.0]]},
        {**about, "value": 6.0, "curve": [[0, 0.0], [100, 6.0]]},
    ]
    row = ElementTree.fromstring(table_row("configs/cartpole/ppo.yaml", "cartpole-ppo", seeds))
    assert (row.get("data-algorithm"), row.get("data-env")) == ("ppo", "CartPole-v1")
    cells = {cell.get("data-label"): cell for cell in row}
    assert "".join(cells["spec"].itertext()) == "cartpole/ppo"
    assert cells["seeds"].text == "2†"
    assert cells["IQM [95% interval]"].findtext("small/strong") == "missed"
    line, gate = cells["curve"].find("svg/polyline"), cells["curve"].find("svg/path")
    assert line is not None
    assert gate is not None
    heights = [float(point.split(",")[1]) for point in line.get("points", "").split()]
    assert (heights[0], heights[-1]) == (32.0, 17.0)  # the curve rises from 0 to 5, half of the gate's height
    assert gate.get("d") == "M2,2.0 H118"


def test_the_page_of_an_algorithm_lists_all_results_of_that_algorithm(written: dict[str, Page]) -> None:
    page = written["algorithms/impala_appo"]
    page.extra.clear()
    add_to_algorithm(page, ["impala", "appo"])
    rows = re.findall(r'data-algorithm="(\w+)" data-env="([\w-]+)".*?data-label="seeds">(\d+)<', page.extra[RESULTS])
    assert ("appo", "Pendulum-v1", "10") in rows
    assert {algorithm for algorithm, _, _ in rows} == {"appo", "impala"}


def test_the_page_of_an_algorithm_without_results_has_no_table_of_results() -> None:
    add_to_algorithm(nothing := Page("algorithms/none", "# `none`\n"), ["none"])
    assert (nothing.instead, nothing.extra) == ({}, {})


def test_a_curve_with_few_evaluations_has_a_mark_at_each_evaluation() -> None:
    record = {"experiment": "x", "expected": 5.0, "curve": [[0, 0.0], [100, 10.0]], "env_steps": 100}
    long = {**record, "curve": [[step, 1.0] for step in range(0, 101, 10)]}
    drawn = ElementTree.fromstring(curve_picture("configs/a/b.yaml", "episode_return_mean", [record, long]))
    assert [(mark.get("cx"), mark.get("cy")) for mark in drawn.findall("circle")] == [
        ("50.0", "164.0"),
        ("312.0", "26.0"),
    ]


def test_config_classes_show_no_signature_and_long_signatures_show_only_parameter_names() -> None:
    signature = "(" + "x" * 300 + ")"
    assert short_signature(None, "class", "", PPO.Config, None, signature, None) == ("", None)
    assert short_signature(None, "class", "", Rollout, None, "(short)", None) is None
    shortened = short_signature(None, "class", "", Rollout, None, signature, None)
    assert shortened is not None
    assert shortened[0].startswith("(worker_index, fragment, batches, env_steps, ")


def test_each_section_of_the_sidebar_has_a_page_that_lists_the_pages_of_the_section() -> None:
    page = section_page("Tasks and methods", [Page("actions", "# Actions\n\nParts of an action. More.")])
    assert (page.name, page.children) == ("sections/tasks_and_methods", ["actions"])
    assert page.markdown == "# Tasks and methods\n\n- [Actions](../actions.md): Parts of an action."


def test_docstrings_are_converted_to_rst_with_code_kept_and_special_characters_escaped() -> None:
    assert rst("A `Flow`s item * 2, `done_` or |e| of\n`two\nlines`.") == (
        "A ``Flow``\\ s item \\* 2, ``done_`` or \\|e\\| of\n``two lines``."
    )
    assert rst("Text.\n\n>>> a * `b`") == "Text.\n\n>>> a * `b`"
    assert fields("Bonus: a number.", "attribute") == ["Bonus: a number."]
    assert ":param x: A number." in fields("Does it.\n\nArgs:\n    x: A number.", "function")


def test_the_reference_shows_the_docstrings_of_plugin_api_names_and_of_aliases(wording) -> None:
    names = plugin_names()
    assert {"Flow", "SampleBatch", "Hook", "Distribution"} <= set(names)
    assert "autoclass:: rlrun.plugin.Hook" in directive(names["Hook"], "Hook", "rlrun.plugin.Hook")
    assert all(docstring_below(module, name) for name, module in names.items() if name in ("PositiveInt", "Schedule"))
    assert docstring_below("rlrun.engine.settings.config", "Schedule") == wording()


def test_agents_md_is_up_to_date_and_lists_all_commands() -> None:
    assert AGENTS.read_text() == agents_text(), "run `python -m scripts.docs_site pages`, which writes AGENTS.md"
    assert all(f"`rlrun {name}`" in agents_text() for name in COMMANDS)


def test_the_spec_reference_is_up_to_date() -> None:
    assert SPEC_REFERENCE.read_text() == spec_reference_text(), "run `python -m scripts.docs_site pages`"


def test_the_site_has_a_page_for_every_algorithm(written: dict[str, Page]) -> None:
    rows = re.findall(r"^\| \[`(\w+)`\]\((algorithms/\w+)\.md\) \|", written["algorithms"].markdown, re.MULTILINE)
    assert {name for name, _ in rows} == set(BUILT_IN)
    assert {page for _, page in rows} <= set(written)


def test_formulas_become_mathml_without_leftover_latex_and_no_page_has_indented_code() -> None:
    parser = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)
    for path in (ROOT / "docs").rglob("*.md"):
        blocks = parser.parse(path.read_text(encoding="utf-8"))
        assert "code_block" not in {block.type for block in blocks}, path
        for token in [*blocks, *(child for block in blocks for child in block.children or [])]:
            if token.type in ("math_block", "math_inline"):
                latex, is_block = token.content, token.type == "math_block"
                math = mathml(latex, is_block=is_block)
                assert not {"\\", "&", "$"} & set(html.unescape(re.sub("<[^>]*>", "", math))), latex
                assert math.count("<mtr>") == (latex.count(r"\\") + 1 if "align" in latex else 0), latex
                assert r"\operatorname" not in latex, "GitHub refuses it: use \\text"
                assert re.search(r"(?<!\\left)\\l[vV]ert|(?<!\\right)\\r[vV]ert", latex) is None, f"bars grow: {latex}"
                assert is_block or "\n" not in latex, latex


def test_names_of_functions_in_formulas_are_surrounded_by_thin_spaces() -> None:
    assert '<mo lspace="0.167em" rspace="0.167em">log</mo><mi>x</mi>' in mathml(r"\log x", is_block=False)


def test_code_on_pages_has_at_most_88_columns(written: dict[str, Page]) -> None:
    """Blocks of the languages console and output are exempt: output is as wide as programs print it."""
    pages = [*written.values(), *command_pages(written).values()]
    blocks = [
        (page.name, language, code)
        for page in pages
        for language, code in re.findall(r"^ *```(\w*)\n(.*?)^ *```$", page.markdown, re.MULTILINE | re.DOTALL)
    ]
    assert {"sh", "yaml", "python", "output"} <= {language for _, language, _ in blocks}
    lines = [
        (name, line)
        for name, language, code in blocks
        for line in code.splitlines()
        if language not in ("console", "output")
    ]
    assert [(name, line) for name, line in lines if len(line) > COLUMNS] == []
