"""What the site adds to the pages of algorithms: dataflow as a picture, results, curves, all settings, metrics."""

from __future__ import annotations

import re

from rlrun.engine.settings.registry import algorithm_class
from rlrun.engine.training.assemble.description import ANY_ENV, Description
from rlrun.engine.training.assemble.policies import Policies
from scripts.docs_site.curves import curves_of
from scripts.docs_site.page import Page, raw_html
from scripts.docs_site.plan_picture import Picture
from scripts.docs_site.results import REACHED, add_to_algorithm
from scripts.docs_site.settings import metrics_table, own_metrics, own_settings, settings_table

INDEX_ROW = re.compile(r"^\| \[`(\w+)`\]\((algorithms/\w+)\.md\) \|", re.MULTILINE)


def add_to_algorithms(pages: dict[str, Page]) -> None:
    """Adds pictures and tables to the page of each algorithm."""
    by_page: dict[str, list[str]] = {}
    for name, page in INDEX_ROW.findall(pages["algorithms"].markdown):
        by_page.setdefault(page, []).append(name)
    for name, algorithms in by_page.items():
        page = pages[name]
        section = "Dataflow" if "## Dataflow" in page.markdown else "Pseudo-code"
        page.extra[section] = "\n".join(map(plan_figure, algorithms))
        page.extra[REACHED] = curve_figures(page)
        add_to_algorithm(page, algorithms)
        page.markdown = page.markdown.rstrip("\n") + "\n" + "\n".join(map(reference, algorithms))


def plan_figure(algorithm: str) -> str:
    """Dataflow of an algorithm as a picture."""
    plan = Description(ANY_ENV, Policies.alone(algorithm_class(algorithm)())).plan().describe()
    picture = Picture(plan).svg(f"Dataflow of {algorithm}")
    return raw_html(f"<figure class='plan'>{picture}<figcaption>{algorithm}</figcaption></figure>")


def curve_figures(page: Page) -> str:
    """Curves of the specs that a page names."""
    specs = dict.fromkeys(re.findall(r"`(configs/[\w/]+\.yaml)`", page.markdown))
    pictures = [picture for spec in specs for picture in curves_of(spec)]
    if not pictures:
        return ""
    told = "Each thin line is a seed, the thick one their mean; the dashed line is the gate.\n\n"
    return told + raw_html(f"<div class='curves'>{''.join(pictures)}</div>")


def reference(algorithm: str) -> str:
    """Tables of an algorithm's settings and metrics, for the end of its page."""
    return (
        f"\n## Settings of `{algorithm}`\n\n"
        f"With their defaults, as `rlrun config {algorithm} --all` prints them, without those that are the "
        f"[same for every algorithm](../spec_reference.md#config).\n\n{settings_table(own_settings(algorithm))}\n"
        f"\n## Metrics of `{algorithm}`\n\nNext to the [metrics of every training](../metrics.md).\n\n"
        f"{metrics_table(own_metrics(algorithm))}\n"
    )
