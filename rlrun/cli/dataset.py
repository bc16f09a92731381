"""``rlrun dataset``: inspects, checks, converts, merges and splits data sets of recorded experience."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import json_option
from rlrun.cli.tables import echo
from rlrun.engine.messages.errors import ExitCode

if TYPE_CHECKING:
    from rlrun.engine.datasets.check import DataFinding
    from rlrun.engine.datasets.data_set import DataSet

PATH = click.Path(path_type=Path)
PLACE = click.Path()  # may also be a URI, which Path would alter
SEED = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed for choosing episodes."
)


@click.group()
def dataset() -> None:
    """Inspect, check, convert, merge and split recorded experience.

    A SET is a folder, or the URI of one in remote storage: s3://bucket/set.
    """


@dataset.command()
@click.argument("target", metavar="SET", type=PLACE)
@json_option("the facts")
def info(target: str) -> None:
    """Show the contents of a data set."""
    found = _opened(target)
    manifest, moments = found.manifest, found.moments()
    facts: dict[str, Any] = {
        "episodes": found.num_episodes,
        "steps": found.num_steps,
        "files": len(manifest.files),
        "bytes": sum(entry.size for entry in manifest.files),
        "agents": list(found.agents),
        "about": dict(manifest.about),
        "digest": found.digest,
    }
    spaces = manifest.spaces.to_json()
    columns = {name: {"dtype": form.dtype.name, "shape": list(form.shape)} for name, form in manifest.columns.items()}
    numbers = {name: {"mean": own.mean.tolist(), "std": (own.variance**0.5).tolist()} for name, own in moments.items()}
    lines = [f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}" for name, value in facts.items()]
    lines += [f"{name} space: {space}" for name, space in manifest.spaces._asdict().items()]
    lines += [f"column {name}: {form.dtype.name} {list(form.shape)}" for name, form in manifest.columns.items()]
    if "rewards" in numbers:
        lines.append(f"rewards: mean {numbers['rewards']['mean']:.4g}, std {numbers['rewards']['std']:.4g}")
    data = {"path": target, **facts, "spaces": spaces, "columns": columns, "moments": numbers}
    print_result(data, "\n".join([target, *lines]))


@dataset.command()
@click.argument("target", metavar="SET", type=PLACE)
@json_option("the findings")
def check(target: str) -> None:
    """Check every file and row of a data set.

    Checks file sizes and digests, stray files, the alignment of observations
    with steps and flags, NaN and infinite numbers, actions outside their
    bounds, the scale of rewards, gaps and duplicates. If something is WRONG,
    the exit code is 5.
    """
    from rlrun.bridges.datasets.conversion import folder_at
    from rlrun.engine.datasets.check import check_set

    findings = check_set(folder_at(target))
    text = "\n".join(_lines(findings)) or "ok"
    print_result({"path": target, "findings": list(map(asdict, findings))}, f"{target}\n{text}")
    _end_with(findings)


@dataset.command()
@click.argument("source", type=PLACE)
@click.argument("target", type=PATH)
@click.option("--spaces", type=PATH, metavar="FILE", help="JSON file with the spaces, such as another set's manifest.")
@click.option("--obs", metavar="NAMES", default="", help="Table columns with the observation, such as x,y,speed.")
@click.option("--actions", metavar="NAMES", default="", help="Table columns with the action.")
@click.option("--next-obs", metavar="NAMES", default="", help="Table columns with the next observation.")
@click.option("--rewards", metavar="NAME", default="rewards", show_default=True, help="Table column with the rewards.")
@click.option(
    "--terminateds",
    metavar="NAME",
    default="terminateds",
    show_default=True,
    help="Table column with the terminated flag.",
)
@click.option(
    "--truncateds",
    metavar="NAME",
    default="truncateds",
    show_default=True,
    help="Table column with the truncated flag.",
)
@click.option(
    "--episode", metavar="NAME", default="episode", show_default=True, help="Table column with the episode number."
)
@json_option("what was written, notes and findings")
def convert(
    source: str,
    target: Path,
    spaces: Path | None,
    obs: str,
    actions: str,
    next_obs: str,
    rewards: str,
    terminateds: str,
    truncateds: str,
    episode: str,
) -> None:
    """Convert a data set to or from another format.

    To export, SOURCE is a data set, and TARGET a .csv, .parquet or .npz file, or
    a folder for a Minari data set. To import, SOURCE is such a file or folder, or
    a file or folder of RLlib's JSON, and TARGET is the folder of a new data set.
    """
    from rlrun.bridges.datasets.conversion import export, imported
    from rlrun.bridges.datasets.table_files import read_spaces
    from rlrun.engine.checkpoint.file_systems import is_uri
    from rlrun.engine.datasets.check import check_set
    from rlrun.engine.datasets.manifest import is_data_set
    from rlrun.engine.datasets.tables import TableNames

    if is_uri(source) or is_data_set(Path(source)):
        export(_opened(source), target)
        print_result({"file": str(target), "source": source}, f"{target}: written from {source}")
        return
    names = TableNames(_listed(obs), _listed(actions), _listed(next_obs), rewards, terminateds, truncateds, episode)
    found, notes = imported(Path(source), names, None if spaces is None else read_spaces(spaces))
    written = found.write(target)
    findings = check_set(target)
    for line in [*notes, *_lines(findings)]:
        echo(line, err=True)
    _print_sets([written], notes=list(notes), findings=list(map(asdict, findings)))
    _end_with(findings)


@dataset.command()
@click.argument("sets", metavar="SETS...", type=PLACE, nargs=-1, required=True)
@click.option("-o", "--output", type=PATH, required=True, help="Folder for the new data set.")
@json_option("what was written")
def merge(sets: tuple[str, ...], output: Path) -> None:
    """Concatenate data sets that have the same spaces and columns."""
    from rlrun.engine.datasets.episodes import copy_of

    found = [_opened(place) for place in sets]
    _print_sets([copy_of(found, [None] * len(found)).write(output)])


@dataset.command()
@click.argument("target", metavar="SET", type=PLACE)
@click.option("-o", "--output", "outputs", type=PATH, nargs=2, required=True, help="Folders for the two new data sets.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1),
    default=0.9,
    show_default=True,
    help="Fraction of the episodes that go into the first set.",
)
@SEED
@json_option("what was written")
def split(target: str, outputs: tuple[Path, Path], share: float, seed: int) -> None:
    """Split the episodes of a data set at random into two new data sets."""
    from rlrun.engine.datasets.episodes import copy_of, drawn

    found = _opened(target)
    first = drawn(found, round(share * found.num_episodes), seed)
    masks = zip(outputs, (first, ~first), strict=True)
    _print_sets([copy_of([found], [mask]).write(output) for output, mask in masks])


@dataset.command()
@click.argument("target", metavar="SET", type=PLACE)
@click.option("-o", "--output", type=PATH, required=True, help="Folder for the new data set.")
@click.option("--episodes", type=click.IntRange(min=1), required=True, help="Number of episodes to draw.")
@SEED
@json_option("what was written")
def sample(target: str, output: Path, episodes: int, seed: int) -> None:
    """Copy episodes of a data set, drawn at random without replacement, to a new one."""
    from rlrun.engine.datasets.episodes import copy_of, drawn

    found = _opened(target)
    _print_sets([copy_of([found], [drawn(found, episodes, seed)]).write(output)])


def _opened(place: str) -> DataSet:
    from rlrun.bridges.datasets.conversion import opened

    return opened(place)


def _listed(names: str) -> tuple[str, ...]:
    return tuple(filter(None, names.split(",")))


def _print_sets(written: Sequence[DataSet], **others: Any) -> None:
    """Prints the written data sets; `others` are additional keys of the JSON document."""
    sets = [{"path": str(one.folder), "episodes": one.num_episodes, "steps": one.num_steps} for one in written]
    lines = [f"{one['path']}: {one['episodes']:,} episodes, {one['steps']:,} steps" for one in sets]
    print_result({"sets": sets, **others}, "\n".join(lines))


def _lines(findings: list[DataFinding]) -> list[str]:
    """Formats findings as lines, with errors marked."""
    return [
        f"{'WRONG' if found.is_wrong else 'note '} {': '.join(filter(None, (found.place, found.text)))}"
        for found in findings
    ]


def _end_with(findings: list[DataFinding]) -> None:
    if any(found.is_wrong for found in findings):
        raise click.exceptions.Exit(ExitCode.CHECKPOINT_REFUSED)
