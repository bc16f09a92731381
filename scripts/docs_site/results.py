"""Tables of learning results with curves: the results page has all of them, with filters; algorithm pages have some."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from html import escape
from typing import Any

import numpy as np
import yaml

from rlrun.experiments.spec.titles import algorithm_title, env_title
from scripts.docs_site.curves import mean_curve
from scripts.docs_site.page import ROOT, Page, raw_html
from scripts.results import BEGIN, END, Record, by_metric, read_records, row

HEADINGS = ("spec", "curve", "target", "IQM [95% interval]", "worst seed", "seeds", "seconds", "commit")
WIDTH, HEIGHT, MARGIN = 120, 34, 2
POINTS = 40
RESULTS = "Results"
"""Heading of the results on an algorithm's page."""

FILTER = """<script>
document.addEventListener("DOMContentLoaded", () => {
  const selects = [...document.querySelectorAll(".results-filter select")];
  const rows = [...document.querySelectorAll("table.results tbody tr")];
  const show = () => {
    rows.forEach((row) => { row.hidden = selects.some((one) => one.value && row.dataset[one.name] !== one.value); });
    const count = rows.filter((row) => !row.hidden).length;
    document.querySelector(".results-filter output").textContent = `${count} of ${rows.length} rows`;
  };
  selects.forEach((one) => one.addEventListener("change", show));
  show();
});
</script>"""


def add_to_results(pages: Mapping[str, Page]) -> None:
    """Replaces the Markdown table on the results page with one that has curves and filters."""
    page = pages["results"]
    written = page.markdown.partition(BEGIN)[2].partition(END)[0].strip()
    page.instead = {written: raw_html(filtered_table(all_results()))}


def add_to_algorithm(page: Page, algorithms: Collection[str]) -> None:
    """Adds results to an algorithm's page: all specs with its algorithms, and the specs that the page names."""
    named = named_specs(page)
    results = {
        (spec, experiment, metric): seeds
        for (spec, experiment, metric), seeds in all_results().items()
        if spec in named or not set(algorithms).isdisjoint(re.split(r", | \+ ", algorithm_and_env(spec, experiment)[0]))
    }
    if results:
        page.extra[RESULTS] = f"{raw_html(results_table(results))}\n{page.extra.get(RESULTS, '')}"


def named_specs(page: Page) -> list[str]:
    """Paths of the specs whose results a page quotes, in the page's order."""
    return list(dict.fromkeys(re.findall(r"`(configs/[\w/]+\.yaml)`", page.markdown)))


@cache
def all_results() -> Mapping[tuple[str, str, str], Sequence[Record]]:
    """The records of each seed, by spec, experiment and metric."""
    return by_metric(read_records())


def filtered_table(results: Mapping[tuple[str, str, str], Sequence[Record]]) -> str:
    """HTML of the table, with filters by algorithm and env."""
    names = {algorithm_and_env(spec, experiment) for spec, experiment, _ in results}
    algorithms, envs = (sorted(set(values), key=str.lower) for values in zip(*names, strict=True))
    return (
        f'<div class="results-filter">{select("algorithm", algorithms)} {select("env", envs)} <output></output></div>\n'
        f"{results_table(results)}\n{FILTER}"
    )


def results_table(results: Mapping[tuple[str, str, str], Sequence[Record]]) -> str:
    """HTML of the table.

    Args:
        results: The records of each seed, by spec, experiment and metric.
    """
    head = "".join(f"<th>{heading}</th>" for heading in HEADINGS)
    rows = "\n".join(table_row(spec, experiment, seeds) for (spec, experiment, _), seeds in results.items())
    return (
        '<div class="table-wrapper docutils container"><table class="docutils results">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def select(name: str, values: Sequence[str]) -> str:
    """HTML of a filter."""
    options = "".join(f"<option>{escape(value)}</option>" for value in values)
    return f'<label>{name} <select name="{name}"><option value="">all</option>{options}</select></label>'


def table_row(spec: str, experiment: str, seeds: Sequence[Record]) -> str:
    """HTML of a row: the cells of the Markdown table, with the curve as a picture in the second cell."""
    algorithm, env = algorithm_and_env(spec, experiment)
    name, *cells, _, commit = row(spec, seeds).removeprefix("| ").removesuffix(" |").split(" | ")
    path, _, metric = name.replace("`", "").removeprefix("configs/").partition(" ")
    first = f"<code>{breakable(path.removesuffix('.yaml'))}</code>"
    first += f"<br/><small>{breakable(metric)}</small>" if metric else ""
    values = [two_lines(escape(cell)).replace("**missed**", "<strong>missed</strong>") for cell in (*cells, commit)]
    labelled = zip(HEADINGS, [first, sparkline(seeds), *values], strict=True)
    html = "".join(f'<td data-label="{escape(heading)}">{cell}</td>' for heading, cell in labelled)
    return f'<tr data-algorithm="{escape(algorithm)}" data-env="{escape(env)}">{html}</tr>'


def breakable(name: str) -> str:
    """HTML of a name that may wrap between its parts."""
    return re.sub(r"([/_])", r"\1<wbr/>", escape(name))


def two_lines(cell: str) -> str:
    """Cell of a table, with its budget or interval in small print on a second line."""
    for mark in (" in ", " [", ", "):
        before, found, after = cell.partition(mark)
        if found:
            return f"{before}<br/><small>{mark.strip(', ')} {after}</small>".replace("[ ", "[")
    return cell


def sparkline(seeds: Sequence[Record]) -> str:
    """SVG of the mean curve over seeds, with the gate as a dashed line; "" without curves."""
    curves = [np.array(record["curve"], float).T for record in seeds if len(record["curve"]) > 1]
    if not curves:
        return ""
    _, mean = mean_curve(curves, POINTS)
    gate = float(seeds[0]["expected"])
    low, high = min(float(mean.min()), gate), max(float(mean.max()), gate)
    scale = (HEIGHT - 2 * MARGIN) / ((high - low) or 1.0)
    xs = np.linspace(MARGIN, WIDTH - MARGIN, POINTS)
    points = " ".join(f"{x:.1f},{HEIGHT - MARGIN - (y - low) * scale:.1f}" for x, y in zip(xs, mean, strict=True))
    level = HEIGHT - MARGIN - (gate - low) * scale
    return (
        f'<svg class="curve small" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="mean learning curve">'
        f'<path class="gate" d="M{MARGIN},{level:.1f} H{WIDTH - MARGIN}"/>'
        f'<polyline class="mean" points="{points}"/></svg>'
    )


def algorithm_and_env(spec: str, experiment: str) -> tuple[str, str]:
    """Display names of an experiment's algorithm, and of its env without its module or namespace."""
    name, _, stage = experiment.partition(".")
    entry = _entries(spec)[name]
    if stage:
        entry = {**entry, "stages": None, **entry["stages"][stage]}
    return algorithm_title(entry), re.split("[:/]", env_title(entry.get("env")))[-1]


@cache
def _entries(spec: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / spec).read_text(encoding="utf-8"))
    return found
