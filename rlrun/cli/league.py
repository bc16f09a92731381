"""``rlrun league CHECKPOINT|RUN``: the members of a league with their ratings and payoffs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import complete_trials, json_option, runs_dir_option
from rlrun.cli.tables import stdout_width, table


@click.command()
@click.argument("target", metavar="CHECKPOINT|RUN", shell_complete=complete_trials)
@runs_dir_option
@json_option("ratings and payoffs")
def league(target: str, runs_dir: Path) -> None:
    """Show the ratings and payoffs of a league.

    Payoffs are win rates in the rating games between snapshots; a draw counts
    half. Give the directory of a CHECKPOINT, a RUN or a trial. For a run or a
    trial, its newest complete checkpoint is used.
    """
    from rlrun.cli.targets import checkpoint_named
    from rlrun.engine.checkpoint.format import read_checkpoint
    from rlrun.engine.messages.errors import UsageError
    from rlrun.engine.training.save.checkpointing import league_table

    checkpoint = checkpoint_named(target, runs_dir, best=False)
    found = league_table(read_checkpoint(checkpoint))
    if found is None:
        raise UsageError(f"{checkpoint}: the spec has no seats, so there is no league")
    none = "no rating games yet; the first are played after the first snapshot"
    text = league_text(found) if found["ratings"] else none
    print_result({"checkpoint": str(checkpoint), **found}, f"{checkpoint}\n{text}")


def league_text(found: dict[str, Any]) -> str:
    """Formats a league's Elo ratings and win rates: one row per member, best first, and one column per opponent."""
    rates = {
        (games["first"], games["second"]): (games["wins"] + 0.5 * games["draws"])
        / (games["wins"] + games["draws"] + games["losses"])
        for games in found["payoffs"]
    }
    names = list(found["ratings"])
    numbers = [str(number) for number in range(1, len(names) + 1)]
    rows = [
        [number, name, f"{found['ratings'][name]:.0f}", *(_rate(rates.get((name, other))) for other in names)]
        for number, name in zip(numbers, names, strict=True)
    ]
    return table(["", "member", "Elo", *numbers], rows, stdout_width())


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.2f}"
