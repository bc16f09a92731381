"""``rlrun plan ALGORITHM``: the dataflow of an algorithm, as text or as a Mermaid flowchart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from rlrun.cli.completers import complete_algorithms
from rlrun.cli.experiments import described_trainings
from rlrun.cli.json_document import print_result
from rlrun.cli.options import OutputFile, json_option, set_option, spec_files_option

if TYPE_CHECKING:
    from rlrun.engine.training.assemble.description import Description

Form = Literal["text", "mermaid"]
FORMS: dict[str, Form] = {".mmd": "mermaid", ".mermaid": "mermaid"}


@click.command()
@click.argument("algorithm", required=False, shell_complete=complete_algorithms)
@spec_files_option
@set_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid"]),
    help="How to draw it.  [default: as FILE's name ends (.mmd), else text]",
)
@click.option(
    "-o",
    "--output",
    type=OutputFile(),
    metavar="FILE",
    help="Write it here instead of on stdout.",
)
@json_option("the dataflow as text")
def plan(
    algorithm: str | None, files: tuple[Path, ...], overrides: tuple[str, ...], form: Form | None, output: Path | None
) -> None:
    """Draw the dataflow of an algorithm.

    It is that of ALGORITHM with its default settings, or of each experiment in
    spec files. The text for spec files also has the settings of an env's preset,
    how each part of an observation enters the network, and for a world of many
    agents the policies of agents and the matches between them.
    """
    if output is not None and output.suffix == ".svg":
        raise click.UsageError(f"a plan is drawn as text or Mermaid: -o {output.with_suffix('.mmd')}")
    if form is None:
        form = FORMS.get(output.suffix, "text") if output is not None else "text"
    trainings = described_trainings(algorithm, files, overrides)
    if form != "text" and len(trainings) > 1:
        raise click.UsageError(f"a drawing shows one plan, and the files hold {len(trainings)} experiments")
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

    described = training.plan().describe()
    if form == "mermaid":
        return (f"%% {name}\n" if titled else "") + plan_mermaid(described)
    if not titled:
        return plan_text(described)
    settings = preset_text(training.env.to_data(), training.algorithm.config.to_data())
    preset = [f"preset {settings}"] if settings else []
    roles, networks = training.policies.described(), training.networks(training.spaces())
    return "\n".join([f"# {name}", plan_text(described), *preset, *roles, *networks])
