"""``rlrun plan ALGORITHM``: the dataflow of an algorithm, as text or as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from rlrun.cli.experiments import algorithm_named
from rlrun.cli.options import OutputFile, complete_algorithms, set_option, spec_files_option
from rlrun.cli.terminal import echo

if TYPE_CHECKING:
    from rlrun.flow.flow import OperatorInfo
    from rlrun.training.description import Description

Form = Literal["text", "mermaid"]
FORMS: dict[str, Form] = {".mmd": "mermaid", ".mermaid": "mermaid"}


@click.command()
@click.argument("algorithm", required=False, shell_complete=complete_algorithms)
@spec_files_option(required=False)
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
def plan(
    algorithm: str | None, files: tuple[Path, ...], overrides: tuple[str, ...], form: Form | None, output: Path | None
) -> None:
    """Draw the dataflow of an algorithm.

    It is that of ALGORITHM with its default settings, or of each experiment in
    spec files. The text for spec files also has the settings of an env's preset,
    how each part of an observation enters the network, and for a world of many
    agents the policies of agents and the matches between them.
    """
    if bool(algorithm) == bool(files):
        raise click.UsageError("name an algorithm, or spec files with -f")
    if output is not None and output.suffix == ".svg":
        raise click.UsageError(f"a plan is drawn as text or Mermaid: -o {output.with_suffix('.mmd')}")
    if form is None:
        form = FORMS.get(output.suffix, "text") if output is not None else "text"
    plans = _plans(algorithm, files, overrides)
    if form != "text" and len(plans) > 1:
        raise click.UsageError(f"a drawing shows one plan, and the files hold {len(plans)} experiments")
    drawn = "\n".join(_drawn(plan, form, titled=bool(files)) for plan in plans)
    if output is None:
        echo(drawn)
        return
    output.write_text(drawn + "\n", encoding="utf-8")
    echo(f"Drawn: {output}")


class _Plan(NamedTuple):
    """The dataflow of a training."""

    name: str
    described: Sequence[OperatorInfo]
    training: Description


def _drawn(plan: _Plan, form: Form, *, titled: bool) -> str:
    name, described, training = plan
    from rlrun.envs.presets import preset_text
    from rlrun.flow.plan import plan_mermaid, plan_text

    if form == "mermaid":
        return (f"%% {name}\n" if titled else "") + plan_mermaid(described)
    if not titled:
        return plan_text(described)
    settings = preset_text(training.env.to_data(), training.algorithm.config.to_data())
    preset = [f"preset {settings}"] if settings else []
    roles, networks = training.policies.described(), training.networks(training.spaces())
    return "\n".join([f"# {name}", plan_text(described), *preset, *roles, *networks])


def _plans(algorithm: str | None, files: tuple[Path, ...], overrides: tuple[str, ...]) -> list[_Plan]:
    """Returns the plans to draw: that of the algorithm, or of the first trial of each experiment."""
    from rlrun.training.description import Description

    if algorithm is not None:
        from rlrun.spec.metric_checks import ANY_ENV
        from rlrun.training.policies import Policies

        trainings = [(algorithm, Description(ANY_ENV, Policies.alone(algorithm_named(algorithm)())))]
    else:
        from rlrun.spec.load import load_experiments

        trials = [experiment.first_trial() for experiment in load_experiments(files, overrides)]
        trainings = [(trial.experiment, Description(trial.env, trial.learns, trial.seed)) for trial in trials]
    return [_Plan(name, training.plan().describe(), training) for name, training in trainings]
