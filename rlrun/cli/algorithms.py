"""Commands about algorithms: ``rlrun algorithms``, ``rlrun config``, ``rlrun metrics`` and ``rlrun plan``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from rlrun.cli.experiments import algorithm_named, described_trainings
from rlrun.cli.json_document import print_json, print_result, wants_json
from rlrun.cli.options import OutputFile, complete_algorithms, json_option, set_option, spec_files_option
from rlrun.cli.tables import echo, stdout_width, table

if TYPE_CHECKING:
    from rlrun.engine.settings.metric import Metric
    from rlrun.engine.training.assemble.description import Description


Form = Literal["text", "mermaid"]
FORMS: dict[str, Form] = {".mmd": "mermaid", ".mermaid": "mermaid"}

CATALOG = "rlrun.algorithms.catalog"
"""Module that describes the built-in algorithms, so that none of them has to be imported."""

INSTALLED = "installed plugins"
"""Heading under which `rlrun algorithms` lists the algorithms of other packages."""


@click.command()
@json_option("the algorithms")
def algorithms() -> None:
    """List all algorithms, built-in ones and plugins, by kind."""
    from rlrun.engine.settings.registry import BUILT_IN_BY_KIND, algorithm_names

    kind_of = {name: kind for kind, names in BUILT_IN_BY_KIND.items() for name in names}
    kinds = {kind: list(names) for kind, names in BUILT_IN_BY_KIND.items()}
    kinds[INSTALLED] = [name for name in algorithm_names() if name not in kind_of]
    found = [_described(name, kind) for kind, names in kinds.items() for name in names]
    lines = table(
        ["algorithm", "actions", "description"],
        [[each["name"], _actions(each["actions"]), each["summary"]] for each in found],
        stdout_width(),
    ).splitlines()
    text, rows = [lines[0]], iter(lines[1:])
    for kind, names in kinds.items():
        if names:
            text += ["", f"{kind}:", *(next(rows) for _ in names)]
    advice = "`rlrun config NAME` prints an algorithm's settings, `rlrun plan NAME` its dataflow."
    print_result({"algorithms": found}, "\n".join([*text, "", advice]))


def _described(name: str, kind: str) -> dict[str, Any]:
    from rlrun.engine.messages.errors import RlrunError
    from rlrun.engine.settings.registry import algorithm_class, load_internal

    listed = load_internal(f"{CATALOG}:CATALOG").get(name)
    if listed is not None:
        acts_in, summary = list(listed.acts_in), listed.summary
        return {
            "name": name,
            "kind": kind,
            "class": f"rlrun.plugin:{listed.name}",
            "actions": acts_in,
            "summary": summary,
        }
    try:
        algorithm = algorithm_class(name)
    except RlrunError as error:  # a broken plugin must not hide the others
        summary = f"cannot be used: {error}".partition("\n")[0]
        return {"name": name, "kind": kind, "class": None, "actions": [], "summary": summary}
    return {
        "name": name,
        "kind": kind,
        "class": f"{algorithm.__module__}:{algorithm.__qualname__}",
        "actions": list(algorithm.acts_in),
        "summary": (algorithm.__doc__ or "").strip().partition("\n")[0],
    }


def _actions(kinds: list[str]) -> str:
    from rlrun.engine.settings.registry import load_internal

    return "all" if kinds == list(load_internal(f"{CATALOG}:EVERY_KIND")) else ", ".join(kinds)


@click.command()
@click.argument("algorithm", shell_complete=complete_algorithms)
@click.option("--all", "show_all", is_flag=True, help="Print all settings, not only the ten that matter most.")
@json_option("all settings and their defaults")
def config(algorithm: str, show_all: bool) -> None:
    """Print the settings of an algorithm as commented YAML.

    ALGORITHM is a name from `rlrun algorithms` or package.module:Class.
    """
    from rlrun.engine.settings.commented_yaml import commented_yaml, main_settings

    model = algorithm_named(algorithm).Config
    if wants_json():
        import yaml

        print_json({"algorithm": algorithm, "settings": yaml.safe_load(commented_yaml(model))})
        return
    names = main_settings(model)
    if show_all or len(names) == len(model.model_fields):
        echo(commented_yaml(model).rstrip("\n"))
        return
    echo(
        f"# The {len(names)} settings that matter most; `rlrun config {algorithm} --all` prints all "
        f"{len(model.model_fields)}.\n\n{commented_yaml(model, names)}".rstrip("\n")
    )


@click.command()
@click.argument("algorithm", required=False, shell_complete=complete_algorithms)
@spec_files_option
@json_option("the metrics")
def metrics(algorithm: str | None, files: tuple[Path, ...]) -> None:
    """List the metrics of an algorithm: names, units and meanings.

    ALGORITHM is a name from `rlrun algorithms` or package.module:Class. With -f,
    list the metrics of each experiment in the spec files instead; a multi-agent
    world, for example, adds metrics of each policy.
    """
    found = {name: _reported(training) for name, training in described_trainings(algorithm, files)}
    data = [
        {"name": name, "metrics": [dataclasses.asdict(metric) for metric in reported]}
        for name, reported in found.items()
    ]
    titled = len(found) > 1
    text = "\n\n".join(f"# {name}\n" * titled + _metrics_table(reported) for name, reported in found.items())
    print_result({"experiments": data}, text)


def _reported(training: Description) -> list[Metric]:
    from rlrun.experiments.spec.metric_checks import reported_metrics

    in_world = training.env.has_many_agents
    trained, measured = reported_metrics(training.policies, in_world=in_world, hooks=training.hooks)
    return [*trained, *measured]


def _metrics_table(reported: Sequence[Metric]) -> str:
    better = {"max": "higher", "min": "lower", None: ""}
    rows = [[metric.name, metric.unit, better[metric.mode], metric.meaning] for metric in reported]
    return table(["metric", "unit", "better", "meaning"], rows, stdout_width())


@click.command()
@click.argument("algorithm", required=False, shell_complete=complete_algorithms)
@spec_files_option
@set_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid"]),
    help="Format of the drawing.  [default: mermaid if FILE ends with .mmd, else text]",
)
@click.option(
    "-o",
    "--output",
    type=OutputFile(),
    metavar="FILE",
    help="Write the drawing to this file instead of stdout.",
)
@json_option("the text of the dataflow")
def plan(
    algorithm: str | None, files: tuple[Path, ...], overrides: tuple[str, ...], form: Form | None, output: Path | None
) -> None:
    """Draw the dataflow of an algorithm.

    ALGORITHM is drawn with its default settings. With -f, each experiment of the
    spec files is drawn; the text then also shows the settings of the env's
    preset, how each part of an observation enters the network, and in a
    multi-agent world which policy controls which agents, and who plays against whom.
    """
    if output is not None and output.suffix == ".svg":
        raise click.UsageError(f"a plan can be drawn only as text or Mermaid: use -o {output.with_suffix('.mmd')}")
    if form is None:
        form = FORMS.get(output.suffix, "text") if output is not None else "text"
    trainings = described_trainings(algorithm, files, overrides)
    if form != "text" and len(trainings) > 1:
        raise click.UsageError(f"a drawing shows one plan, but the files contain {len(trainings)} experiments")
    drawn = "\n".join(_drawn(name, training, form, titled=bool(files)) for name, training in trainings)
    if output is not None:
        output.write_text(drawn + "\n", encoding="utf-8")
    data = {
        "experiments": [name for name, _ in trainings],
        "format": form,
        "text": drawn,
        "file": output and str(output),
    }
    print_result(data, drawn if output is None else f"Drawn: {output}")


def _drawn(name: str, training: Description, form: Form, *, titled: bool) -> str:
    from rlrun.engine.envs.presets import preset_text
    from rlrun.engine.flow.plan import plan_mermaid, plan_text
    from rlrun.engine.training.rounding import ACTS_IN_TORCH, ALL_PROCESSORS, expected_dependence

    described = training.plan().describe()
    if form == "mermaid":
        return (f"%% {name}\n" if titled else "") + plan_mermaid(described)
    if not titled:
        return plan_text(described)
    settings = preset_text(training.env.to_data(), training.algorithm.config.to_data())
    preset = [f"preset {settings}"] if settings else []
    spaces = training.spaces()
    roles, networks = training.policies.described(), training.networks(spaces)
    is_of_arrays = training.env.tensors is None
    reason = expected_dependence(training.policies, spaces) if is_of_arrays else ACTS_IN_TORCH
    results = f"results: depend on processor and BLAS, because {reason}" if reason else f"results: {ALL_PROCESSORS}"
    return "\n".join([f"# {name}", plan_text(described), *preset, *roles, *networks, results])
