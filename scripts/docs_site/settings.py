"""Tables of settings and metrics, generated from the config classes and the components' declarations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rlrun.engine.algorithm import AlgorithmConfig
from rlrun.engine.messages.explain import describe, full_annotation, is_model
from rlrun.engine.settings.commented_yaml import flow_yaml
from rlrun.engine.settings.config import ConfigModel
from rlrun.engine.settings.metric import Metric
from rlrun.engine.settings.registry import BUILT_IN, algorithm_class
from rlrun.engine.training.assemble.policies import Policies
from rlrun.experiments.spec.metric_checks import reported_metrics
from scripts.docs_site.page import Page, table


class Row(NamedTuple):
    """A row in a table of settings.

    Attributes:
        name: Name of the setting, with its section, such as `model.core`.
        kind: The values that it takes, in words.
        default: Default in YAML, or `required`.
        meaning: Its docstring.
    """

    name: str
    kind: str
    default: str
    meaning: str


def setting_rows(model: type[ConfigModel], prefix: str = "", section: ConfigModel | None = None) -> Iterator[Row]:
    """Yields the settings of a config class; the settings of a section follow the section."""
    for name, setting in model.model_fields.items():
        required = section is None and setting.is_required()
        value = None if required else setting.get_default(call_default_factory=True)
        value = getattr(section, name) if section is not None else value
        meaning = " ".join((setting.description or "").split())
        if isinstance(value, ConfigModel):
            yield from setting_rows(type(value), f"{prefix}{name}.", value)
            continue
        kind = "section" if is_model(setting.annotation) else described(setting)
        yield Row(f"{prefix}{name}", kind, "required" if required else flow_yaml(value), meaning)


SHORTER = {
    "a mapping (key: value)": "mapping",
    "a list of a mapping": "list of mappings",
    "a list of mapping": "list of mappings",
    "non-empty text": "text",
    "whole numbers": "integers",
    "a whole number": "integer",
    "a number": "number",
    "a list": "list",
    ", true or false": " or boolean",
    "true, false or": "boolean or",
    "true or false": "boolean",
}
"""Short names of types for tables, by their wording in messages."""


def described(setting: object) -> str:
    """Description of the values that a setting takes."""
    text = describe(full_annotation(setting))  # type: ignore[arg-type]
    for words, name in SHORTER.items():
        text = text.replace(words, name)
    return text.replace("<=", "\\<=")


def settings_table(rows: Sequence[Row]) -> str:
    """Table of settings, as Markdown."""
    cells = [
        [f"`{name}`", kind, default if default == "required" else f"`{default}`", meaning]
        for name, kind, default, meaning in rows
    ]
    return table(["setting", "type", "default", "meaning"], cells)


COMMON = tuple(setting_rows(AlgorithmConfig))
"""Settings that every algorithm has."""


def own_settings(name: str) -> list[Row]:
    """Settings of an algorithm that not all algorithms have, or whose default or meaning differs."""
    return [row for row in setting_rows(algorithm_class(name).Config) if row not in COMMON]


def algorithm_metrics(name: str) -> list[Metric]:
    """Metrics that an algorithm reports."""
    trained, _ = reported_metrics(Policies.alone(algorithm_class(name)()), in_world=False, hooks=())
    return list(trained)


def own_metrics(name: str) -> list[Metric]:
    """Metrics of an algorithm that not all algorithms report."""
    shared = {metric.name for metric in shared_metrics()}
    return [metric for metric in algorithm_metrics(name) if metric.name not in shared]


def shared_metrics() -> list[Metric]:
    """Metrics that both `ppo` and `dqn` report, and so does all other training."""
    names = {metric.name for metric in algorithm_metrics("dqn")}
    return [metric for metric in algorithm_metrics("ppo") if metric.name in names]


def metrics_table(metrics: Sequence[Metric]) -> str:
    """Table of metrics, as Markdown."""
    return table(["metric", "unit", "meaning"], [[f"`{one.name}`", one.unit, escaped(one.meaning)] for one in metrics])


def escaped(text: str) -> str:
    """Text in which placeholders such as `<name>` are not parsed as HTML tags."""
    return text.replace("<", "&lt;")


def metrics_page() -> Page:
    """Page with all metrics and the algorithms that report them."""
    shared = shared_metrics()
    _, measured = reported_metrics(Policies.alone(algorithm_class("ppo")()), in_world=False, hooks=())
    found: dict[Metric, list[str]] = {}
    for name in BUILT_IN:
        for metric in own_metrics(name):
            found.setdefault(metric, []).append(f"`{name}`")
    rows = [[f"`{metric.name}`", metric.unit, escaped(metric.meaning), " ".join(found[metric])] for metric in found]
    text = [
        "# Metrics",
        "Everything that results report, with units and meanings, read from the code. "
        "[When it does not learn](diagnosing.md#read-the-metrics) explains how to read them. `rlrun metrics ALGORITHM` "
        "prints those of one algorithm.",
        "## Of every training\n",
        metrics_table(shared),
        "## Of evaluations\n",
        metrics_table(list(measured)),
        "## Of algorithms\n",
        table(["metric", "unit", "meaning", "of"], sorted(rows)),
    ]
    return Page("metrics", "\n\n".join(text))
