"""``rlrun evaluate CHECKPOINT|RUN``: the mean return of a saved policy, with its confidence interval."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlrun.cli.json_document import print_result
from rlrun.cli.options import actions_option, complete_envs, complete_trials, json_option, runs_dir_option, trust_option
from rlrun.cli.tables import cell_text, counted, echo

MOST_INFOS = 10
"""Maximum number of means of numbers in infos that are printed."""

if TYPE_CHECKING:
    from rlrun.engine.data.action_kind import ActionKind
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.rollout.evaluation import EvaluationResult
    from rlrun.engine.training.training import Training


@click.command()
@click.argument("target", metavar="CHECKPOINT|RUN", shell_complete=complete_trials)
@click.option("--best", is_flag=True, help="Use the best checkpoint of the run instead of the newest.")
@click.option("--episodes", type=click.IntRange(min=1), default=20, show_default=True, help="Number of episodes.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed for the episodes.")
@click.option("--show", type=click.IntRange(min=1), help="Print the first N episodes as text (single-agent envs).")
@actions_option
@click.option(
    "--env",
    shell_complete=complete_envs,
    help="Evaluate in this env (or world, as YAML) instead of the training env.",
)
@click.option("--port", type=click.IntRange(1, 65_535), help="Port to which simulators connect (env: {external: ...}).")
@click.option("--against", help="Opponent: a CHECKPOINT, a RUN, random, one_ply, minimax, mcts or a script.")
@click.option(
    "--simulations", type=click.IntRange(min=0), help="Number of search simulations per move; 0 for no search."
)
@runs_dir_option
@trust_option
@json_option("the evaluation")
def evaluate(
    target: str,
    best: bool,
    episodes: int,
    seed: int,
    show: int | None,
    actions: ActionKind | None,
    env: str | None,
    port: int | None,
    against: str | None,
    simulations: int | None,
    runs_dir: Path,
    trust: bool,
) -> None:
    """Evaluate a saved policy over a number of episodes.

    Prints the mean return, its standard deviation and a 95% bootstrap interval. Give
    the directory of a CHECKPOINT, a RUN or a trial. For a run or a trial, its newest
    complete checkpoint is used.

    If a number in the info of each episode's last step, or in a column that
    env.columns names, is 0 or 1, such as a success flag, the share of episodes with 1
    is shown with an exact 95% interval, as is the success rate of a task defined by
    an automaton. The means of the other numbers in these infos follow.

    With --show, prints the first episodes as text, each with its return. The env must
    have a single agent and Gymnasium's render mode ansi. To watch a multi-agent world,
    use `rlrun record`.

    With --against, the policy plays against an opponent in a multi-agent world and
    takes each side in half of the games. Prints wins, draws and losses with 95% intervals. In a
    deterministic world, use --actions sampled, or all games will be the same. A script
    is named as package.module:Name and may have settings: "minimax(depth=5)".

    A policy with tree search, such as alphazero's, uses the number of simulations
    from its settings, or --simulations. An opponent always uses the number from
    its own settings.
    """
    from rlrun.cli.targets import checkpoint_named, env_written, evaluation_env, read_next, restored
    from rlrun.engine.data.action_kind import other_kind
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.rollout.evaluation import interval_gap
    from rlrun.exact.task_model import with_satisfaction
    from rlrun.report.action_kinds import DifferingKinds

    find = partial(checkpoint_named, target, runs_dir, best=best)
    found_first = find()
    other = None if env is None else EnvConfig.parse(env_written(env), path="--env")
    if port is not None and (against is not None or other is not None):
        raise click.UsageError("--port evaluates in the episodes of clients; leave out --env and --against")
    if show is not None and (against is not None or port is not None):
        raise click.UsageError("--show works only in a local single-agent env; leave out --against and --port")
    if against is not None and other is not None:
        raise click.UsageError("--against plays in the world in which the policy was trained; leave out --env")
    saved = partial(restored, runs_dir=runs_dir, trust=trust)
    with ExitStack() as stack:

        def read(checkpoint: Path) -> tuple[Path, Training, EnvConfig]:
            training = stack.enter_context(saved(checkpoint))
            return checkpoint, training, evaluation_env(checkpoint, training)

        checkpoint, training, own_env = read_next(found_first, find, read)
        if simulations is not None:
            training.acting.search(simulations)
        if against is not None:
            from rlrun.cli.versus import Versus, opponent_named

            opponent = opponent_named(against, runs_dir, best=best)
            other_side = opponent if isinstance(opponent, str) else stack.enter_context(saved(opponent)).games
            sides = training.games.play(other_side, episodes, seed=seed, actions=actions)
            found = Versus(str(checkpoint), str(opponent), sides)
            print_result(found.to_dict(), found.text())
            return
        if other is not None and (lost := lost_limit(own_env, other)):
            echo(f"warning: {lost}", err=True)
        world = other or (own_env if port is None else _clients_on(training.description.env, port))
        judged_in, kind = with_satisfaction(world), actions or training.description.actions
        result = training.evaluate(episodes, seed=seed, actions=kind, env=judged_in)
        of_other = training.acting.evaluate_other_kind(episodes, seed=seed, actions=kind, env=judged_in)
        shown = []
        if show is not None:
            from rlrun.engine.training.act.played_episodes import episodes_as_text

            shown = episodes_as_text(training.acting.policy(), world, show, seed, actions=kind)
    data = {"checkpoint": str(checkpoint), "seed": seed, "actions": kind, **result.to_dict()}
    lines = [str(checkpoint), evaluation_text(result)]
    if of_other is not None:
        data[other_kind(kind)] = of_other.to_dict()
        if interval_gap(result, of_other):
            lines.append(DifferingKinds(kind, result.mean, of_other.mean).line())
    texts = {} if show is None else {"shown": shown}
    print_result(data | texts, "\n".join([*lines, *shown]))


def _clients_on(env: EnvConfig, port: int) -> EnvConfig:
    """The external env of a training run, with a server on another port."""
    if env.external is None:
        raise click.UsageError(
            f"--port needs a policy trained in an external env (env: {{external: ...}}), but its env is {env.id}"
        )
    return env.replace(external=env.external.replace(port=port))


def lost_limit(trained: EnvConfig, given: EnvConfig) -> str:
    """Message on a training env that limits the length of episodes if the given env does not; "" otherwise."""
    from rlrun.engine.envs.env_ids import time_limit
    from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError

    try:
        steps = time_limit(trained)
    except (UsageError, EnvironmentUnusable):  # the training env may not be installed here
        return ""
    if steps is None or given.has_many_agents or time_limit(given) is not None:
        return ""
    return (
        f"{trained.id}, the training env, limits episodes to {steps:,} steps, but {given.id} has none: set one "
        f"with --env '{{id: {given.id}, max_episode_steps: {steps}}}'"
    )


def evaluation_text(result: EvaluationResult) -> str:
    """Formats an evaluation as text; in a multi-agent world with the returns of each policy."""
    own = [
        f"policy {policy}: {_text(each) if each.returns else 'none of its agents appeared'}"
        for policy, each in result.policies.items()
    ]
    return "\n".join([_text(result), *own])


def _text(result: EvaluationResult) -> str:
    low, high = map(cell_text, result.ci95)
    infos = sorted((name for name in result.infos if name not in result.columns), key=lambda it: it not in result.rates)
    lines = {
        "mean return": f"{cell_text(result.mean)}  (95% interval {low} to {high})",
        "std": cell_text(result.std),
        "min, max": f"{cell_text(result.min)}, {cell_text(result.max)}",
        "mean length": cell_text(result.len_mean),
        **{f"mean {name}": _mean_text(result, name, sums) for name, sums in result.columns.items()},
        **{f"mean {name}": _mean_text(result, name, result.infos[name]) for name in infos[:MOST_INFOS]},
    }
    if len(infos) > MOST_INFOS:
        lines["others"] = f"{counted(len(infos) - MOST_INFOS, 'more number')} in infos; --json lists them"
    width = max(13, *(len(what) + 2 for what in lines))
    return "\n".join(
        [counted(len(result.returns), "episode"), *(f"  {what:<{width}}{value}" for what, value in lines.items())]
    )


def _mean_text(result: EvaluationResult, name: str, numbers: Sequence[float]) -> str:
    """Mean over the episodes of a number; with an exact interval if it is a rate."""
    mean = cell_text(sum(numbers) / len(numbers))
    if len(numbers) < len(result.returns):
        return f"{mean}  (in {counted(len(numbers), 'episode')})"
    if name not in result.rates:
        return mean
    low, high = result.rates[name]
    return f"{mean}  (exact 95% interval {low:.3f} to {high:.3f})"
