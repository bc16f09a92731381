"""Two-agent matrix games with simultaneous actions and known optimal joint actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.worlds.world import World, WorldStep

if TYPE_CHECKING:
    from rlrun.engine.worlds.games.array_game import Flags

AGENTS = ("agent_0", "agent_1")

Table = NDArray[np.float64]

PENALTY = "penalty"

PAYOFFS: Mapping[str, tuple[list[list[float]], Callable[[Table], Table]]] = {
    "climbing": ([[11.0, -30.0, 0.0], [-30.0, 7.0, 6.0], [0.0, 0.0, 5.0]], np.positive),
    "additive_fit": ([[0.0, 1.0], [1.0, 8.0]], np.positive),
    "prisoners_dilemma": ([[-1.0, -3.0], [0.0, -2.0]], np.transpose),
    "rock_paper_scissors": ([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]], np.negative),
    "matching_pennies": ([[1.0, -1.0], [-1.0, 1.0]], np.negative),
}
"""Payoff matrix of agent_0 by game (rows: actions of agent_0), and a function to the payoffs of agent_1."""


def payoffs(game: str, k: float) -> Table:
    """Payoffs of a game with A actions, [2, A, A], indexed by agent, action of agent_0, and action of agent_1.

    Raises:
        UsageError: There is no game with this name.
    """
    if game == PENALTY:
        table = np.array([[10.0, 0.0, k], [0.0, 2.0, 0.0], [k, 0.0, 10.0]])
        return np.stack([table, table])
    if game not in PAYOFFS:
        raise UsageError(f"unknown matrix game {game!r}; must be one of: {', '.join(sorted([PENALTY, *PAYOFFS]))}")
    rows, of_other = PAYOFFS[game]
    return np.stack([np.array(rows), of_other(np.array(rows))])


class MatrixGame(World):
    """One-shot matrix game: two agents act simultaneously, with rewards from a payoff table.

    Observation: one number, always 0. Actions: Discrete(A), for a table of A x A. Rewards: the table's entry for
    the joint action. Ends: after the only step, for both. The global state equals the observation.

    Tables are written row by row: rows are actions of agent_0, and columns are actions of agent_1.

    - `penalty`: 10/0/k, 0/2/0, k/0/10 for both (Claus and Boutilier, 1998). The best is 10, at (0, 0) and (2, 2).
    - `climbing`: 11/-30/0, -30/7/6, 0/0/5 for both (same paper). The best is 11, at (0, 0).
    - `additive_fit`: 0/1, 1/8 for both. No sum of one value per agent fits this table: the least-squares fit has -1.5
      where both choose 0, and 6.5 where both choose 1.
    - `prisoners_dilemma`: -1 each if both are silent (0), -2 each if both confess (1), else 0 for the one who confesses
      and -3 for the other.
    - `rock_paper_scissors`: 1 for the winner and -1 for the loser.
    - `matching_pennies`: 1 for agent_0 and -1 for agent_1 if both show the same side, else the other way round.

    Args:
        game: Name of the table.
        k: The penalty k of the game `penalty`, at most 0; unused in other games.

    Raises:
        UsageError: There is no game with this name.
    """

    def __init__(self, game: str = PENALTY, k: float = -100.0) -> None:
        self.possible_agents = AGENTS
        self._payoffs = payoffs(game, k)
        self._spaces = Spaces(Box(-1.0, 1.0, (1,)), Discrete(self._payoffs.shape[1]))
        self.state_space = Box(-1.0, 1.0, (1,))

    @override
    def spaces(self, agent: str) -> Spaces:
        return self._spaces

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Starts an episode; the game is deterministic."""
        return dict.fromkeys(AGENTS, self.state())

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Applies the joint action; returns both agents' payoffs, and ends the episode."""
        paid = self._payoffs[:, int(actions[AGENTS[0]]), int(actions[AGENTS[1]])]
        return _last_step(dict.fromkeys(AGENTS, self.state()), paid)

    @override
    def state(self) -> NDArray[np.float32]:
        """Returns the constant global state: a single 0, [1]."""
        return np.zeros(1, np.float32)

    @override
    def game_tree(self) -> MatrixPosition:
        return MatrixPosition(self._payoffs)


@dataclass(frozen=True)
class MatrixPosition:
    """Position in a matrix game as a game tree: players decide in sequence, without seeing each other's action.

    Attributes:
        payoffs: Payoffs of A actions, [2, A, A]: agent, action of agent_0, action of agent_1.
        actions: Actions so far.
    """

    payoffs: Table
    actions: tuple[int, ...] = ()

    @property
    def player(self) -> int | None:
        """Index of the player to act: 0 for agent_0, then 1 for agent_1; None after both actions."""
        return len(self.actions) if len(self.actions) < len(AGENTS) else None

    @property
    def returns(self) -> tuple[float, float]:
        """Payoffs of both agents, after both actions."""
        first, second = self.payoffs[:, self.actions[0], self.actions[1]].tolist()
        return first, second

    def chances(self) -> list[tuple[float, Self]]:
        """Returns no outcomes, since there are no random moves."""
        return []

    def legal(self) -> Flags:
        """Returns the mask of the A actions, [A]: all are legal."""
        return np.ones(self.payoffs.shape[1], np.bool_)

    def play(self, action: int) -> Self:
        """Returns the position after an action of the player to act."""
        return replace(self, actions=(*self.actions, action))

    def observe(self) -> NDArray[np.float32]:
        """Returns a single 0, [1], since a player observes nothing."""
        return np.zeros(1, np.float32)


class TwoStepGame(World):
    """Two-step cooperative game of QMIX: agent_0's first action selects the payoff table of the second step.

    In the first step the reward is 0, and only the action of agent_0 matters: 0 leads to table A, 1 to table B. In the
    second step both agents get a common reward: 7 in table A for all actions; 0/1, 1/8 in table B. The optimal return
    is 8. A sum of one value for each agent (VDN) does not fit table B, so VDN chooses A and gets 7. See Rashid et al.,
    QMIX, arXiv:1803.11485, section 5.

    Observation: one-hot of the first step, table A and table B, [3]; zeros at the end. Actions: Discrete(2). Rewards:
    the same for both agents. Ends: after the second step, for both. The global state equals the observation.

    Args:
        split: Whether each agent receives half of the common reward.
    """

    _TABLES = np.array([[[7.0, 7.0], [7.0, 7.0]], [[0.0, 1.0], [1.0, 8.0]]])

    def __init__(self, *, split: bool = False) -> None:
        self.possible_agents = AGENTS
        self.state_space = Box(0.0, 1.0, (3,))
        self._share = 0.5 if split else 1.0
        self._spaces = Spaces(Box(0.0, 1.0, (3,)), Discrete(2))
        self._stage = 0
        self._stages = np.eye(4, 3, dtype=np.float32)

    @override
    def spaces(self, agent: str) -> Spaces:
        return self._spaces

    @override
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Starts an episode; the game is deterministic."""
        self._stage = 0
        return dict.fromkeys(AGENTS, self.state())

    @override
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Applies the joint action: selects the table in the first step, returns its payoffs in the second."""
        first, second = (int(actions[agent]) for agent in AGENTS)
        if self._stage == 0:
            self._stage = 1 + first
            return WorldStep(dict.fromkeys(AGENTS, self.state()), dict.fromkeys(AGENTS, 0.0), {}, {}, {}, False)
        paid = self._share * float(self._TABLES[self._stage - 1, first, second])
        self._stage = 3
        return _last_step(dict.fromkeys(AGENTS, self.state()), np.array([paid, paid]))

    @override
    def state(self) -> NDArray[np.float32]:
        """Returns the global state: one-hot stage of the game, [3]."""
        shown: NDArray[np.float32] = self._stages[self._stage].copy()
        return shown


def _last_step(observations: Mapping[str, Any], paid: NDArray[np.float64]) -> WorldStep:
    ended = dict.fromkeys(AGENTS, True)
    return WorldStep(observations, dict(zip(AGENTS, paid.tolist(), strict=True)), ended, {}, {}, True)
