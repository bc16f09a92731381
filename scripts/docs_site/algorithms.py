"""Pages of algorithms: the table of all of them, and additions to each page such as dataflow, curves and settings."""

from __future__ import annotations

import re

from rlrun.algorithms.catalog import CATALOG, EVERY_KIND
from rlrun.engine.settings.registry import BUILT_IN_BY_KIND, algorithm_class
from rlrun.engine.training.assemble.description import ANY_ENV, Description
from rlrun.engine.training.assemble.policies import Policies
from scripts.docs_site.curves import curves_of
from scripts.docs_site.page import ROOT, Page, raw_html, table
from scripts.docs_site.plan_picture import Picture
from scripts.docs_site.results import RESULTS, add_to_algorithm, named_specs
from scripts.docs_site.settings import metrics_table, own_metrics, own_settings, settings_table

INDEX = ROOT / "docs" / "algorithms.md"
BEGIN, END = "<!-- algorithms: written by scripts/docs_site -->", "<!-- algorithms: end -->"
INDEX_ROW = re.compile(r"^\| \[`(\w+)`\]\((algorithms/\w+)\.md\) \|", re.MULTILINE)


def index_text() -> str:
    """Text of docs/algorithms.md, with the table of all algorithms up to date."""
    before, _, rest = INDEX.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n\n{algorithms_table()}\n\n{END}{rest.partition(END)[2]}"


def write_index() -> None:
    """Writes the table of docs/algorithms.md."""
    INDEX.write_text(index_text(), encoding="utf-8")


def algorithms_table() -> str:
    """Table of all built-in algorithms by kind: name and page, full name or summary, actions, support for worlds."""
    pages = {}
    for page in sorted((ROOT / "docs" / "algorithms").glob("*.md")):
        title = page.read_text(encoding="utf-8").partition("\n")[0]
        pages.update(dict.fromkeys(re.findall(r"`(\w+)`", title), page.name))
    rows = []
    for names in BUILT_IN_BY_KIND.values():
        for name in names:
            listed = CATALOG[name]
            kinds = [kind.removeprefix("bounded ") for kind in listed.acts_in]
            actions = "all" if listed.acts_in == EVERY_KIND else ", ".join(kinds)
            worlds = "yes" if algorithm_class(name).learns_in_worlds else ""
            rows.append([f"[`{name}`](algorithms/{pages[name]})", short(listed.summary), actions, worlds])
    return table(["name", "what it is", "actions", "worlds"], rows)


def short(summary: str) -> str:
    """The full name at the beginning of a summary, or its first clause without the source.

    Examples:
        >>> short("Deep Q-network: off-policy Q-learning from a replay buffer.")
        'Deep Q-network'
        >>> short("AlphaZero: self-play with a policy-value network (arXiv:1712.01815).")
        'AlphaZero: self-play with a policy-value network'
    """
    name, _, rest = summary.partition(":")
    if rest and " " in name and "(" not in name:
        return name
    return re.split("[,;] ", re.sub(r" \([^()]*(\d{4})[^()]*\)", "", summary).rstrip("."))[0]


def algorithms_by_page(index: Page) -> dict[str, list[str]]:
    """Names of all built-in algorithms by the page that describes them, read from the table in docs/algorithms.md."""
    by_page: dict[str, list[str]] = {}
    for name, page in INDEX_ROW.findall(index.markdown):
        by_page.setdefault(page, []).append(name)
    return by_page


def add_names(pages: dict[str, Page]) -> None:
    """Adds the names of algorithms to the keywords of their pages, so that a search for "ppo" lists its page first."""
    for name, algorithms in algorithms_by_page(pages["algorithms"]).items():
        pages[name].keywords += algorithms


def add_to_algorithms(pages: dict[str, Page]) -> None:
    """Adds pictures and tables to the page of each algorithm."""
    for name, algorithms in algorithms_by_page(pages["algorithms"]).items():
        page = pages[name]
        page.extra["Pseudo-code"] = "\n".join(map(plan_figure, algorithms))
        page.extra[RESULTS] = curve_figures(page)
        add_to_algorithm(page, algorithms)
        page.markdown = page.markdown.rstrip("\n") + "\n" + "\n".join(map(reference, algorithms))


def plan_figure(algorithm: str) -> str:
    """Dataflow of an algorithm as a picture."""
    plan = Description(ANY_ENV, Policies.alone(algorithm_class(algorithm)())).plan().describe()
    picture = Picture(plan).svg(f"Dataflow of {algorithm}")
    return raw_html(f"<figure class='plan'>{picture}<figcaption>{algorithm}</figcaption></figure>")


def curve_figures(page: Page) -> str:
    """Curves of the specs that a page mentions."""
    pictures = [picture for spec in named_specs(page) for picture in curves_of(spec)]
    if not pictures:
        return ""
    legend = "Thin lines are seeds, the thick line is their mean, and the dashed line is the target.\n\n"
    return legend + raw_html(f"<div class='curves'>{''.join(pictures)}</div>")


def reference(algorithm: str) -> str:
    """Tables of an algorithm's settings and metrics, for the end of its page."""
    shared = "[metrics of every training](../metrics.md)"
    metrics = f"`{algorithm}` reports only the {shared}."
    if own := own_metrics(algorithm):
        metrics = f"`{algorithm}` reports these metrics in addition to the {shared}.\n\n{metrics_table(own)}"
    return (
        f"\n## Settings of `{algorithm}`\n\n"
        f"`rlrun config {algorithm} --all` prints all settings with their defaults. Settings that are "
        f"[the same for every algorithm](../spec_reference.md#config) are left out here.\n\n"
        f"{settings_table(own_settings(algorithm))}\n"
        f"\n## Metrics of `{algorithm}`\n\n{metrics}\n"
    )
