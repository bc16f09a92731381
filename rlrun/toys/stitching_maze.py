"""Maze whose best path appears in no single recorded episode: ``env: rlrun.toys:StitchingMaze``."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

MAP = ("A.....X", "###.###", "C.....G", "###.###", "###...Y")
"""The maze: # is a wall, A is the start cell, and the cells G, X and Y end an episode."""

ENDS = {"G": 10.0, "X": 0.0, "Y": 0.0}
"""Reward of each end of the maze, in addition to the -1 of every step."""

MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""Moves of the actions: up, right, down, left, as (rows, columns)."""

UP, RIGHT, DOWN, LEFT = range(4)

ROUTES = {
    (0, 0): (RIGHT,) * 6,
    (0, 5): (LEFT,) * 2 + (DOWN,) * 4 + (RIGHT,) * 3,
    (2, 0): (RIGHT,) * 6,
}
"""Recorded routes by their first cell: from A to X, from next to X down to Y, and from C to G."""

ROUTE_SHARES = (0.6, 0.2, 0.2)
"""Shares of the recorded episodes that take each route."""


class RecordedEpisode(NamedTuple):
    """Recorded episode of T steps in the maze.

    Attributes:
        obs: Cells, [T + 1].
        actions: Moves, [T].
        rewards: Rewards, [T].
        terminateds: Whether a step ended the episode, [T].
    """

    obs: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    terminateds: NDArray[np.bool_]


class StitchingMaze(gymnasium.Env[int, int]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Maze of 5 x 7 cells for offline learning: the best path combines parts of three recorded routes.

    A step costs 1, and the goal G is worth 10. The best return from the start A is 2, in 8 steps. Recorded episodes
    follow one of three routes: from A to the dead end X, from next to X down to the dead end Y, or from the cell C to
    G. No recorded episode that passes A, or the crossing in the top row, reaches the goal. Imitation follows the most
    frequent route, to X. A return-conditioned policy has seen only low returns there. Values learned by bootstrapping
    combine the parts.

    The observation is the index of the cell. `P` is the model of the maze, from which `rlrun oracle` computes exact
    values.
    """

    def __init__(self) -> None:
        """Creates the env."""
        self.observation_space = spaces.Discrete(len(MAP) * len(MAP[0]))
        self.action_space = spaces.Discrete(len(MOVES))
        self.initial_state_distrib = np.eye(int(self.observation_space.n))[0]
        self.P = {
            cell: {action: [outcome(cell, action)] for action in range(len(MOVES))}
            for cell in range(int(self.observation_space.n))
        }
        self._cell = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Starts an episode at the start cell A."""
        super().reset(seed=seed)
        self._cell = 0
        return self._cell, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Moves to a neighboring cell; a move into a wall has no effect."""
        ((_, self._cell, reward, terminated),) = self.P[self._cell][int(action)]
        return self._cell, reward, terminated, False, {}


def outcome(cell: int, action: int) -> tuple[float, int, float, bool]:
    """Outcome of a move: probability (always 1), next cell, reward, and whether the episode ends."""
    width = len(MAP[0])
    row, column = divmod(cell, width)
    to_row, to_column = row + MOVES[action][0], column + MOVES[action][1]
    if not (0 <= to_row < len(MAP) and 0 <= to_column < width) or MAP[to_row][to_column] == "#":
        to_row, to_column = row, column
    found = MAP[to_row][to_column]
    return 1.0, to_row * width + to_column, ENDS.get(found, 0.0) - 1.0, found in ENDS


def recorded_episodes(number: int, seed: int, *, noise: float = 0.1) -> list[RecordedEpisode]:
    """Plays episodes along the recorded routes.

    Args:
        number: Number of episodes.
        seed: Seed of the choice of routes, and of the noise.
        noise: Probability that a move in a corridor is replaced by a move into the wall, which has no effect.
    """
    generator = np.random.default_rng(seed)
    routes = generator.choice(len(ROUTES), number, p=ROUTE_SHARES)
    starts, moves = list(ROUTES), list(ROUTES.values())
    return [_recorded(starts[route], moves[route], generator, noise) for route in routes]


def _recorded(
    start: tuple[int, int], moves: tuple[int, ...], generator: np.random.Generator, noise: float
) -> RecordedEpisode:
    """Plays the moves of a route, with bumps into walls in between."""
    cells, actions = [start[0] * len(MAP[0]) + start[1]], []
    rewards, terminateds = [], []
    for move in moves:
        bumps = [action for action in range(len(MOVES)) if outcome(cells[-1], action)[1] == cells[-1]]
        tries = int(generator.geometric(1 - noise)) - 1 if bumps else 0
        for action in [*generator.choice(bumps, tries).tolist(), move] if tries else [move]:
            _, cell, reward, terminated = outcome(cells[-1], action)
            cells.append(cell)
            actions.append(action)
            rewards.append(reward)
            terminateds.append(terminated)
    return RecordedEpisode(np.array(cells), np.array(actions), np.array(rewards), np.array(terminateds))
