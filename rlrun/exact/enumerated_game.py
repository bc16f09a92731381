"""Exact best responses, NashConv and average policies in small games, by enumeration of the game tree (NumPy)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.worlds.games.array_game import Flags, Tree
from rlrun.engine.worlds.games.game_tree import CHANCE, GameTree

Chances = NDArray[np.float64]
"""Behavior strategy of a player: probability of each action in each of its information states, [I, A]."""

NOBODY = (-1, -1)
"""Information state and action of a player before its first move."""


@dataclass
class InformationStates:
    """Information states of a player in a game, in the order of discovery: states earlier in a game come first.

    Attributes:
        observations: Observations of the player, leaves [I, ...].
        legal: Masks of legal actions, [I, A].
        before: The player's previous information state and the action taken there, for each state; -1 before the first
            move.
    """

    observations: Tree
    legal: Flags
    before: list[tuple[int, int]]

    def uniform(self) -> Chances:
        """Returns the uniform policy over legal actions, [I, A]."""
        uniform: Chances = self.legal / self.legal.sum(-1, keepdims=True)
        return uniform

    def average(self, policies: Sequence[Chances]) -> Chances:
        """Behavior strategy equivalent to drawing one of several policies with equal probability before each game.

        Each policy counts in an information state by how likely its own actions lead there (Kuhn, 1953; Heinrich et
        al., "Fictitious self-play in extensive-form games", ICML 2015, theorem 7).
        """
        stacked = np.stack(policies)
        reach = np.ones(stacked.shape[:2])
        for index, (state, action) in enumerate(self.before):
            if state >= 0:
                reach[:, index] = reach[:, state] * stacked[:, state, action]
        weighted: Chances = (reach[..., None] * stacked).sum(0)
        total = reach.sum(0)[:, None]
        return np.where(total > 0, weighted / np.where(total > 0, total, 1.0), self.uniform())


@dataclass
class _Node:
    """Position in the enumerated tree.

    Attributes:
        player: Player to act; CHANCE; None at the end.
        state: Index of the player's information state.
        returns: Returns at the end.
        children: Action, or probability of chance, and the position after it.
    """

    player: int | None
    state: int = -1
    returns: tuple[float, float] = (0.0, 0.0)
    children: list[tuple[float, _Node]] = field(default_factory=list)


@dataclass
class _Found:
    """Information states of a player while the tree is enumerated."""

    numbers: dict[bytes, int] = field(default_factory=dict)
    observations: list[Tree] = field(default_factory=list)
    legal: list[Flags] = field(default_factory=list)
    before: list[tuple[int, int]] = field(default_factory=list)


class EnumeratedGame:
    """All positions and information states of a two-player game.

    Args:
        root: Initial position of the game.

    Attributes:
        states: Information states of both players.

    Raises:
        ValueError: A player's information states lack perfect recall: they omit earlier actions.
    """

    def __init__(self, root: GameTree) -> None:
        self._found = (_Found(), _Found())
        self._root = self._enumerated(root, (NOBODY, NOBODY))
        self.states = tuple(
            InformationStates(
                map_tree(lambda *own: np.stack(own), *found.observations), np.stack(found.legal), found.before
            )
            for found in self._found
        )

    def values(self, policies: Sequence[Chances]) -> tuple[float, float]:
        """Expected returns of both players under given policies."""
        first, second = self._expected(self._root, policies).tolist()
        return first, second

    def nash_conv(self, policies: Sequence[Chances]) -> float:
        """NashConv: total gain of both players from best responses (Lanctot et al., 2017); 0 in equilibrium.

        Args:
            policies: The policy of each player.
        """
        values = self.values(policies)
        return sum(self.best_response_value(player, policies) - values[player] for player in (0, 1))

    def exploitability(self, policies: Sequence[Chances]) -> float:
        """Exploitability: mean gain of a player from a best response, NashConv / 2."""
        return self.nash_conv(policies) / 2

    def best_response_value(self, player: int, policies: Sequence[Chances]) -> float:
        """Expected return of a player's best response to the other player's policy."""
        return _BestResponse(player, policies, self._root).value(self._root)

    def _enumerated(self, position: GameTree, before: tuple[tuple[int, int], tuple[int, int]]) -> _Node:
        player = position.player
        if player is None:
            return _Node(None, returns=position.returns)
        if player == CHANCE:
            outcomes = [(chance, self._enumerated(after, before)) for chance, after in position.chances()]
            return _Node(CHANCE, children=outcomes)
        legal = np.asarray(position.legal(), np.bool_)
        state = self._number_of(player, position.observe(), legal, before[player])
        node = _Node(player, state)
        for action in np.flatnonzero(legal).tolist():
            now = ((state, action), before[1]) if player == 0 else (before[0], (state, action))
            node.children.append((action, self._enumerated(position.play(action), now)))
        return node

    def _number_of(self, player: int, observation: Tree, legal: Flags, before: tuple[int, int]) -> int:
        """Returns the number of an information state, a new one if it was not found before."""
        found = self._found[player]
        key = b"".join(np.asarray(leaf).tobytes() for leaf in leaves(observation))
        number = found.numbers.setdefault(key, len(found.numbers))
        if number == len(found.legal):
            found.observations.append(observation)
            found.legal.append(legal)
            found.before.append(before)
        if found.before[number] != before:
            raise ValueError(f"player {player} is shown the same after different moves of its own: no perfect recall")
        return number

    def _expected(self, node: _Node, policies: Sequence[Chances]) -> NDArray[np.float64]:
        if node.player is None:
            return np.array(node.returns)
        total: NDArray[np.float64] = sum(
            (chance * self._expected(child, policies) for chance, child in _outcomes(node, policies)), np.zeros(2)
        )
        return total


class _BestResponse:
    """Best response of a player to the other's policy, computed where it is asked for.

    The best action in an information state is that with the highest value over its positions, each weighted by how
    likely chance and the other player lead there.
    """

    def __init__(self, player: int, policies: Sequence[Chances], root: _Node) -> None:
        self._player = player
        self._policies = policies
        self._reached: dict[int, list[tuple[float, _Node]]] = {}
        self._values: dict[int, float] = {}
        self._actions: dict[int, int] = {}
        self._reach(root, 1.0)

    def _reach(self, node: _Node, chance: float) -> None:
        """Collects the positions of the player's information states with the probability of all others' moves."""
        if node.player == self._player:
            self._reached.setdefault(node.state, []).append((chance, node))
            for _, child in node.children:
                self._reach(child, chance)
        elif node.player is not None:
            for own, child in _outcomes(node, self._policies):
                self._reach(child, chance * own)

    def value(self, node: _Node) -> float:
        """Expected return from a position on."""
        if id(node) not in self._values:
            self._values[id(node)] = self._computed(node)
        return self._values[id(node)]

    def _computed(self, node: _Node) -> float:
        if node.player is None:
            return node.returns[self._player]
        if node.player != self._player:
            return sum(chance * self.value(child) for chance, child in _outcomes(node, self._policies))
        if node.state not in self._actions:
            positions = self._reached[node.state]
            totals = [
                sum(chance * self.value(own.children[number][1]) for chance, own in positions)
                for number in range(len(node.children))
            ]
            self._actions[node.state] = int(np.argmax(totals))
        return self.value(node.children[self._actions[node.state]][1])


def _outcomes(node: _Node, policies: Sequence[Chances]) -> list[tuple[float, _Node]]:
    """Probability of each move of chance or of a player, and the position after it."""
    if node.player == CHANCE or node.player is None:
        return node.children
    chances = policies[node.player][node.state]
    return [(float(chances[int(action)]), child) for action, child in node.children]
