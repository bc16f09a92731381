"""``rlrun verify SPEC``: trains one seed again, and compares digests of its results with published ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import complete_specs, json_option, progress_options, runs_dir_option
from rlrun.report.step_axis import counted_metric

if TYPE_CHECKING:
    from rlrun.cli.watch import Progress
    from rlrun.report.verification import Verification

DIFFERENT = 1
"""Exit code if the results differ."""


@click.command()
@click.argument("spec", type=click.Path(path_type=Path), shell_complete=complete_specs)
@click.option("--write", "writes", is_flag=True, help="Write the digests of this training instead of comparing them.")
@progress_options
@runs_dir_option
@json_option("the comparison")
def verify(spec: Path, writes: bool, progress: Progress | None, quiet: bool, runs_dir: Path) -> None:
    """Train one seed of a spec again, and check that its results are the published ones, bit for bit.

    The published digests of my.yaml are in my.digest.json: one for each result row
    without its timings, and one for the final weights. --write trains the spec's
    first seed and writes that file.

    The exit code is 0 if all are equal and 1 if not. The first row that differs is
    then printed, followed by its possible causes, the most likely first.

    \b
    rlrun verify cartpole/ppo
    rlrun verify my.yaml --write
    """  # noqa: D301 (\b keeps click from rewrapping the paragraph)
    from rlrun.cli.watch import watching
    from rlrun.engine.messages.errors import UsageError
    from rlrun.experiments.runs.outcome import shown_path
    from rlrun.experiments.spec.load import load_experiments, spec_files
    from rlrun.report.verification import Verification, digest_file, read_digests, retrained, write_digests

    (file, *_), (experiment, *others) = spec_files([spec]), load_experiments([spec])
    if others:
        names = ", ".join(each.name for each in (experiment, *others))
        raise UsageError(f"{spec}: only one experiment can be verified at a time, but it has {names}")
    digests = Path(shown_path(digest_file(file)))
    published = None if writes else read_digests(digests)
    seed = experiment.seeds[0] if published is None else published.seed
    with watching(progress, quiet=quiet) as watcher:
        found, rows = retrained(experiment, seed, runs_dir=runs_dir, watch=watcher)
    if published is None:
        write_digests(digests, found)
        data = {"experiment": experiment.name, "seed": seed, "file": str(digests), "rows": len(rows)}
        print_result(data, f"{digests}: digests of {len(rows)} rows and the final weights of seed {seed}")
        return
    compared = Verification(published, found, rows)
    print_result(_data(experiment.name, digests, compared), _text(experiment.name, digests, compared))
    if not compared.is_equal:
        raise click.exceptions.Exit(DIFFERENT)


def _data(name: str, file: Path, compared: Verification) -> dict[str, Any]:
    row = compared.first_differing_row
    return {
        "experiment": name,
        "seed": compared.published.seed,
        "file": str(file),
        "rows": len(compared.rows),
        "is_equal": compared.is_equal,
        "first_differing_row": None if row is None else row + 1,
        "causes": compared.causes,
    }


def _text(name: str, file: Path, compared: Verification) -> str:
    title, row, number = f"{name} seed {compared.published.seed}", compared.first_differing_row, len(compared.rows)
    if compared.is_equal:
        return f"{title}: all {number} rows and the final weights are those of {file}"
    if row is None:
        first = f"all {number} rows are those of {file}, but the final weights differ"
    elif row >= number:
        first = f"the training ended after {number} rows, but {file} has {len(compared.published.rows)}"
    elif row >= len(compared.published.rows):
        first = f"the training has {number} rows, but {file} has {row}"
    else:
        counter = counted_metric(compared.rows)
        steps = f"{compared.rows[row][counter]:,} {counter.replace('_', ' ')}"
        first = f"row {row + 1} of {number}, at {steps}, is the first that differs from {file}"
    causes = compared.causes or ["nothing that rlrun knows of: does the env or its math library differ?"]
    return "\n".join([f"{title}: {first}", f"likely cause: {causes[0]}", *(f"also: {other}" for other in causes[1:])])
