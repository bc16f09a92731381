"""``rlrun doctor``: checks whether this machine can train, and benchmarks a spec with different worker counts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from rlrun.cli.json_document import print_json, wants_json
from rlrun.cli.options import json_option, runs_dir_option
from rlrun.cli.tables import echo


@click.command()
@click.option("--compile", "compile_update", is_flag=True, help="Also compile an update with torch (15 s or more).")
@click.option("--ray", "start_ray", is_flag=True, help="Also start and stop Ray (about 10 s).")
@click.option(
    "--tune",
    "spec",
    type=click.Path(path_type=Path),
    metavar="SPEC",
    help="Instead of the checks, time SPEC with different numbers of workers and envs (about 1 min) and print the "
    "fastest as YAML.",
)
@runs_dir_option
@json_option("the findings")
def doctor(compile_update: bool, start_ray: bool, spec: Path | None, runs_dir: Path) -> None:
    """Check this machine: what is installed and what works.

    Checks versions, extras, CPUs, bfloat16, memory, disk, ports, GPU and compilers.
    """
    if spec is not None:
        from rlrun.cli.timings import tune

        tune(spec)
        return
    from rlrun.cli.machine import findings
    from rlrun.engine.messages.errors import EnvironmentUnusable

    found = []
    for finding in findings(runs_dir, compile_update=compile_update, start_ray=start_ray):
        found.append(finding)
        if not wants_json():
            advice = f"  ({finding.advice})" if finding.advice else ""
            echo(f"{finding.verdict:<8}{finding.subject:<19}{finding.value}{advice}")
    if wants_json():
        print_json({"findings": [asdict(finding) for finding in found]})
    missing = [finding.subject for finding in found if finding.verdict == "missing"]
    if missing:
        raise EnvironmentUnusable(f"training does not work on this machine without: {', '.join(missing)}")
