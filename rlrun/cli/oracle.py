"""``rlrun oracle RUN|CHECKPOINT|SPEC``: exact values of a finite env, and the errors of learned values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import json_option, runs_dir_option, trust_option
from rlrun.cli.tables import cell_text, stdout_width, table

if TYPE_CHECKING:
    from rlrun.training.oracle import ExactValues, LearnedValues

MOST_ROWS = 64
"""Number of states listed without ``--all``."""


@click.command()
@click.argument("target", metavar="RUN|CHECKPOINT|SPEC")
@click.option("--best", is_flag=True, help="Take the best checkpoint of the run, not its newest.")
@click.option("--all", "lists_all", is_flag=True, help=f"List all states, not only the first {MOST_ROWS}.")
@runs_dir_option
@trust_option
@json_option("the values")
def oracle(target: str, best: bool, lists_all: bool, runs_dir: Path, trust: bool) -> None:
    """Compare learned values with the exact values of a small env.

    The env must have a tabular model, as FrozenLake-v1, CliffWalking-v1 and
    Taxi-v4 do. For a SPEC, a YAML file, only the exact values are shown. Values
    are discounted by the algorithm's gamma; with gamma 1 they are returns within
    the time limit.
    """
    if Path(target).suffix in (".yaml", ".yml"):
        exact, learned = _of_spec(Path(target)), None
    else:
        from rlrun.cli.targets import checkpoint_named, restored
        from rlrun.training.oracle import learned_values

        with restored(checkpoint_named(target, runs_dir, best=best), runs_dir, trust=trust) as training:
            learned = learned_values(training)
        exact = learned.exact
    print_result(_document(exact, learned), oracle_text(exact, learned, None if lists_all else MOST_ROWS))


def _of_spec(file: Path) -> ExactValues:
    """Solves the env of a spec file's first experiment for the exact values."""
    from rlrun.spec.load import load_experiments
    from rlrun.training.oracle import exact_values

    trial = load_experiments([file])[0].first_trial()
    return exact_values(trial.env, trial.learns.first.config.gamma)


def oracle_text(exact: ExactValues, learned: LearnedValues | None, most_rows: int | None = None) -> str:
    """Formats exact and learned state values as a table, with the policies' values at the initial states."""
    states = exact.counts.nonzero()[0].tolist()
    actions = exact.q.shape[1]
    headings = ["state", "V*", *(f"Q*({action})" for action in range(actions))]
    rows: list[list[Any]] = [[state, float(exact.values[state]), *exact.q[state].tolist()] for state in states]
    if learned is not None:
        headings += ["learned V", "action", "loses"]
        for row, state in zip(rows, states, strict=True):
            action = int(learned.actions[state])
            row += [float(learned.values[state]), action, float(exact.values[state] - exact.q[state, action])]
    lines = [table(headings, rows[:most_rows], stdout_width())]
    if most_rows is not None and len(rows) > most_rows:
        lines.append(f"... and {len(rows) - most_rows} states more: --all lists them")
    numbers = {f"best policy (gamma {exact.gamma:g})": exact.at_start}
    if learned is not None:
        numbers |= {
            "learned policy": learned.policy_at_start,
            "policy gap": learned.policy_gap,
            f"value gap of {'V' if learned.q is None else 'Q'}": learned.value_gap,
        }
    width = max(map(len, numbers))
    return "\n".join([*lines, *(f"{name:<{width}}  {cell_text(value)}" for name, value in numbers.items())])


def _document(exact: ExactValues, learned: LearnedValues | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "gamma": exact.gamma,
        "optimal_value": exact.at_start,
        "states": exact.counts.nonzero()[0].tolist(),
        "q": exact.q.tolist(),
    }
    if learned is not None:
        document |= {
            "policy_value": learned.policy_at_start,
            "policy_gap": learned.policy_gap,
            "value_gap": learned.value_gap,
            "actions": learned.actions.tolist(),
            "learned_values": learned.values.tolist(),
        }
    return document
