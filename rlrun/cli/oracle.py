"""``rlrun oracle RUN|CHECKPOINT|SPEC``: exact values in small envs and games, and how learned policies compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import complete_trials, json_option, runs_dir_option, trust_option
from rlrun.cli.tables import cell_text, stdout_width, table

if TYPE_CHECKING:
    from rlrun.engine.training.training import Training
    from rlrun.exact.oracle import ExactValues, LearnedValues
    from rlrun.exact.task_model import Certificate
    from rlrun.experiments.spec.experiment import TrialSpec

MOST_ROWS = 64
"""Number of states listed without ``--all``."""


@click.command()
@click.argument("target", metavar="RUN|CHECKPOINT|SPEC", shell_complete=complete_trials)
@click.option("--best", is_flag=True, help="Use the best checkpoint of the run instead of the newest.")
@click.option("--all", "lists_all", is_flag=True, help=f"List all states instead of only the first {MOST_ROWS}.")
@runs_dir_option
@trust_option
@json_option("the values")
def oracle(target: str, best: bool, lists_all: bool, runs_dir: Path, trust: bool) -> None:
    """Compare learned values with exact ones in small envs.

    The env must have a tabular model, as FrozenLake-v1, CliffWalking-v1 and
    Taxi-v4 do. For a SPEC, a YAML file, only the exact values are shown. Values are
    discounted with the algorithm's gamma; with gamma 1 they are returns within the
    time limit.

    If an automaton defines the env's task, shows instead the probabilities that the
    optimal policy and the learned one satisfy the task. In a world with a
    game tree, shows the exploitability of the policies of a RUN, or of the
    average of a league's snapshots.
    """
    if Path(target).suffix in (".yaml", ".yml"):
        print_result(*_of_spec(_first_trial(Path(target)), lists_all))
        return
    from rlrun.cli.targets import checkpoint_named, restored

    with restored(checkpoint_named(target, runs_dir, best=best), runs_dir, trust=trust) as training:
        print_result(*_of_training(training, lists_all))


def _first_trial(file: Path) -> TrialSpec:
    """First trial of a spec file's first experiment."""
    from rlrun.experiments.spec.load import load_experiments

    return load_experiments([file])[0].first_trial()


def _of_spec(trial: TrialSpec, lists_all: bool) -> tuple[dict[str, Any], str]:
    """Exact values, or the certificate, of a trial's env."""
    from rlrun.exact.oracle import exact_values
    from rlrun.exact.task_model import certificate, has_task

    if has_task(trial.env):
        return _certified(certificate(trial.env))
    exact = exact_values(trial.env, trial.learns.first.config.gamma)
    return _document(exact, None), oracle_text(exact, None, None if lists_all else MOST_ROWS)


def _of_training(training: Training, lists_all: bool) -> tuple[dict[str, Any], str]:
    """Exact and learned values, the certificate or the exploitability of a restored training."""
    from rlrun.exact.exploitability import exploitability
    from rlrun.exact.oracle import learned_values
    from rlrun.exact.task_model import certificate, has_task

    env = training.description.env
    if env.has_many_agents:
        gain = exploitability(training)
        of = "current policies" if training.running.league is None else "average of the league's snapshots"
        return {"exploitability": gain}, f"exploitability of the {of} (NashConv / 2): {cell_text(gain)}"
    if has_task(env):
        return _certified(certificate(env, training))
    learned = learned_values(training)
    return _document(learned.exact, learned), oracle_text(learned.exact, learned, None if lists_all else MOST_ROWS)


def _certified(found: Certificate) -> tuple[dict[str, Any], str]:
    """Data and text of a certificate."""
    data = {"best_satisfaction": found.best, "policy_satisfaction": found.learned}
    lines = {"optimal policy": found.best, "learned policy": found.learned}
    text = [f"  {who:<16}{cell_text(chance)}" for who, chance in lines.items() if chance is not None]
    return data, "\n".join(["probability that the task is satisfied", *text])


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
        lines.append(f"... and {len(rows) - most_rows} more states; use --all to list them")
    numbers = {f"optimal policy (gamma {exact.gamma:g})": exact.at_start}
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
