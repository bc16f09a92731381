"""``rlrun label RUN``: shows or changes the tags and the note of a run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlrun.cli.completers import complete_runs, complete_tags
from rlrun.cli.json_document import print_result
from rlrun.cli.options import json_option, note_option, runs_dir_option, tag_option

if TYPE_CHECKING:
    from rlrun.experiments.runs.labels import Labels


@click.command()
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@tag_option
@click.option("--untag", "removed", multiple=True, metavar="NAME", shell_complete=complete_tags, help="Remove a tag.")
@note_option
@runs_dir_option
@json_option("the labels")
def label(run: str, tags: tuple[str, ...], removed: tuple[str, ...], note: str | None, runs_dir: Path) -> None:
    """Show or change the tags and the note of a run.

    It works while the run trains as well. An empty note removes the present one.

    \b
    rlrun label cartpole-ppo --tag good --untag draft --note "wider net"
    rlrun runs --tag good
    """  # noqa: D301 (click's mark for a paragraph that stays as it is)
    from rlrun.cli.targets import run_named
    from rlrun.experiments.runs.labels import read_labels, write_labels

    directory = run_named(run, runs_dir)
    labels = read_labels(directory)
    if tags or removed or note is not None:
        labels = labels.changed(tags, removed, note)
        write_labels(directory, labels)
    data = {"name": directory.resolve().name, "directory": str(directory), **asdict(labels)}
    print_result(data, "\n".join(labels_lines(labels)) or "no labels")


def labels_lines(labels: Labels) -> list[str]:
    """Lines that show the labels of a run, for `rlrun label` and `rlrun status`."""
    tags = [f"tags: {', '.join(labels.tags)}"] if labels.tags else []
    return [*tags, *([f"note: {labels.note}"] if labels.note else [])]
