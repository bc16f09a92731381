"""``rlrun play CHECKPOINT|RUN``: a board game against a saved policy, in the terminal."""

from __future__ import annotations

import re
import string
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlrun.cli.options import actions_option, complete_trials, runs_dir_option, trust_option
from rlrun.cli.tables import echo, plain
from rlrun.engine.messages.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import numpy as np

    from rlrun.engine.data.action_kind import ActionKind
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.policy.behavior import BehaviorPolicy
    from rlrun.toys.board_games import BoardGame

QUIT = "q"
_CELL = re.compile(r"([a-z])(\d{1,2})")


@click.command()
@click.argument("target", metavar="CHECKPOINT|RUN", shell_complete=complete_trials)
@click.option("--as", "player", help="Your side, such as x or o; default: the side that moves first.")
@click.option("--best", is_flag=True, help="Use the best checkpoint of the run instead of the newest.")
@actions_option
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed for the sampled moves."
)
@click.option(
    "--simulations", type=click.IntRange(min=0), help="Number of search simulations per move; 0 for no search."
)
@runs_dir_option
@trust_option
def play(
    target: str,
    player: str | None,
    best: bool,
    actions: ActionKind | None,
    seed: int,
    simulations: int | None,
    runs_dir: Path,
    trust: bool,
) -> None:
    """Play a board game against a saved policy.

    Enter one move per line: a column in games where pieces fall, else a cell such
    as b2. Enter q to quit. Give the directory of a CHECKPOINT, a RUN or a
    trial. For a run or a trial, its newest complete checkpoint is used.
    A policy with tree search, such as alphazero's,
    uses the number of simulations from its settings, or --simulations.
    """
    from rlrun.cli.targets import checkpoint_named, restored
    from rlrun.engine.functional.seeding import generator
    from rlrun.engine.league.matches import SIDES

    checkpoint = checkpoint_named(target, runs_dir, best=best)
    with restored(checkpoint, runs_dir, trust=trust) as training:
        world = _board_game(training.description.env)
        person = _side_of(player, world)
        if simulations is not None:
            training.acting.search(simulations)
        policy = training.games.player(SIDES[1 - person])
        echo(f"{checkpoint}\nYou are {world.possible_agents[person]}. {_how_to_move(world)}, or {QUIT} to quit.")
        kind = actions or training.description.actions
        _play(world, person, policy, generator(seed, "play") if kind == "sampled" else None)


def board_text(world: BoardGame) -> str:
    """Renders the board as text: rows with the players' initials, and names of cells or columns."""
    rules, marks = world.rules, [".", *(agent[0] for agent in world.possible_agents)]
    if _moves_by_column(world):
        names = [str(column + 1) for column in range(rules.columns)]
        return "\n".join([" ".join(names), *(" ".join(marks[cell] for cell in row) for row in world.board())])
    names = list(string.ascii_lowercase[: rules.columns])
    lines = ["   " + " ".join(names)]
    for number, row in enumerate(world.board(), 1):
        indent = " " * (number - 1) if rules.is_slanted else ""
        lines.append(f"{indent}{number:>2} {' '.join(marks[cell] for cell in row)}")
    return "\n".join(lines)


def _board_game(env: EnvConfig) -> BoardGame:
    """Creates the board game in which a policy was trained.

    Raises:
        UsageError: If the world is not a board game.
    """
    from rlrun.engine.worlds.make_worlds import make_world, steps_all_at_once
    from rlrun.toys.board_games import BoardGame

    if env.has_many_agents and not steps_all_at_once(env):
        world = make_world(env.in_evaluation())
        if isinstance(world, BoardGame):
            return world
    raise UsageError(
        f"env {env.id} cannot be played in a terminal: it must be a board game from rlrun.toys.board_games, "
        "without wrappers"
    )


def _side_of(player: str | None, world: BoardGame) -> int:
    """Index of the player with a given name; 0 for an empty name.

    Raises:
        UsageError: If there is no such player.
    """
    players = world.possible_agents
    if player is None:
        return 0
    if player not in players:
        raise UsageError(f"--as {player}: must be {' or '.join(players)}{did_you_mean(player, players)}")
    return list(players).index(player)


def _play(world: BoardGame, person: int, policy: BehaviorPolicy, draws: np.random.Generator | None) -> None:
    """Plays a game until it ends or the user quits."""
    shown = world.reset(0)
    echo(f"\n{board_text(world)}")
    begins = True
    while True:
        mover, agent = world.mover, world.possible_agents[world.mover]
        if mover == person:
            chosen = _prompted(world)
            if chosen is None:
                echo("The game is not finished.")
                return
            action = chosen
        else:
            action = _action(policy, shown[agent], draws, begins=begins)
            begins = False
            echo(f"{agent} plays {_name(world, action)}.")
        step = world.step({agent: action})
        echo(f"\n{board_text(world)}")
        if step.ended:
            won = step.rewards[world.possible_agents[person]]
            echo("You win." if won > 0 else "You lose." if won < 0 else "A draw.")
            return
        shown = step.observations


def _action(policy: BehaviorPolicy, observation: Any, draws: np.random.Generator | None, *, begins: bool) -> int:
    """Policy's action for an observation of the game."""
    import numpy as np

    from rlrun.engine.data.tree import map_tree

    policy.begin_episodes(np.array([begins]))
    actions = policy.actions(map_tree(lambda leaf: np.asarray(leaf)[None], observation), draws)
    policy.take_rewards(np.zeros(1))
    return int(actions[0])


def _prompted(world: BoardGame) -> int | None:
    """Prompts the user for a legal action; None at `QUIT` or the end of the input."""
    while True:
        click.echo(plain(f"{world.possible_agents[world.mover]} to move: "), nl=False)
        line = sys.stdin.readline()
        if not line or line.strip().lower() == QUIT:
            echo()
            return None
        try:
            return _action_named(world, line.strip().lower())
        except UsageError as error:
            echo(str(error))


def _action_named(world: BoardGame, text: str) -> int:
    """Parses a typed move into a legal action.

    Raises:
        UsageError: If the text is not a move, or the move is illegal.
    """
    row, column = _row_and_column(world, text)
    if not (0 <= row < world.rules.rows and 0 <= column < world.rules.columns):
        raise UsageError(f"'{text}' is not a valid move. {_how_to_move(world)}, or {QUIT} to quit.")
    action = world.rules.action_at(row, column, world.mover)
    if world.cell_of(action) is None:
        raise UsageError(f"Column {text} is full." if _moves_by_column(world) else f"{text} is taken.")
    return action


def _row_and_column(world: BoardGame, text: str) -> tuple[int, int]:
    """Parses a typed move into a cell (the first one of a column), possibly off the board."""
    if _moves_by_column(world):
        return 0, int(text) - 1 if text.isdecimal() else -1
    cell = _CELL.fullmatch(text)
    return (int(cell[2]) - 1, string.ascii_lowercase.index(cell[1])) if cell else (-1, -1)


def _name(world: BoardGame, action: int) -> str:
    """Formats a legal action as a typed move."""
    cell = world.cell_of(action)
    assert cell is not None  # policies only choose actions that the mask allows
    row, column = cell
    return str(column + 1) if _moves_by_column(world) else f"{string.ascii_lowercase[column]}{row + 1}"


def _how_to_move(world: BoardGame) -> str:
    """Instruction on the notation of moves."""
    rules = world.rules
    if _moves_by_column(world):
        return f"Enter a column from 1 to {rules.columns}"
    return f"Enter a cell from a1 to {string.ascii_lowercase[rules.columns - 1]}{rules.rows}"


def _moves_by_column(world: BoardGame) -> bool:
    return world.rules.num_actions == world.rules.columns
