"""Batched Monte Carlo tree search for parallel games: trees in arrays, one batched leaf evaluation per simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.messages.errors import EnvironmentUnusable
from rlrun.engine.worlds.games.array_game import ArrayGame, Flags, Floats, Indices, States

Predict = Callable[[States, Flags], tuple[Floats, Floats]]
"""Leaf evaluation: from unfinished positions [n] and legal actions [n, A] to prior probabilities [n, A] and the mover's
values in [-1, 1], [n]."""

_NONE = -1


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a tree search.

    Attributes:
        exploration: Exploration constant of PUCT (c_puct in the papers).
        first_play_reduction: First-play urgency reduction: the Q value of an unvisited action is the position's
            predicted value minus this number.
        noise_fraction: Weight of Dirichlet noise in the root's priors during self-play.
        noise_concentration: Concentration of the symmetric Dirichlet noise over the legal actions.
    """

    exploration: float = 1.25
    first_play_reduction: float = 0.2
    noise_fraction: float = 0.25
    noise_concentration: float = 0.3


class _Rows:
    """Node and edge statistics of all search trees.

    Attributes:
        states: Positions of the nodes, [rows, ...].
        parents: Parent of each node, [rows]; a node without a parent is its own.
        movers: Player to move, 1 or -1, [rows].
        is_end: Mask of terminal nodes, [rows].
        worth: Predicted value of the position for its mover, or the result of a finished game for the mover, [rows].
        counts: Visit counts of the nodes, including their expansion, [rows].
        best: Action with the highest PUCT score, [rows].
        next: Child of the best action, -1 if unexpanded, [rows].
        children: Child of each action, -1 if unexpanded, [rows, A].
        visits: Visit counts of actions, N(s, a), [rows, A].
        sums: Sums of backed-up values, W(s, a), [rows, A].
        means: Mean backed-up values, Q(s, a), -inf for illegal actions, [rows, A].
        priors: Prior probabilities, P(s, a), [rows, A].
        urges: Exploration terms P(s, a) / (1 + N(s, a)), [rows, A].
    """

    def __init__(self, rows: int, actions: int, like: States) -> None:
        self.states = np.empty((rows, *like.shape[1:]), like.dtype)
        self.parents, self.best, self.next = (np.zeros(rows, np.int64) for _ in range(3))
        self.is_end = np.zeros(rows, np.bool_)
        self.movers, self.worth, self.counts = (np.zeros(rows, np.float32) for _ in range(3))
        self.children = np.full((rows, actions), _NONE)
        self.visits, self.sums, self.means, self.priors, self.urges = (
            np.zeros((rows, actions), np.float32) for _ in range(5)
        )
        # Flat views of these arrays, indexed by node * A + action.
        self.edge_visits, self.edge_sums, self.edge_means, self.edge_priors, self.edge_urges = (
            numbers.reshape(-1) for numbers in (self.visits, self.sums, self.means, self.priors, self.urges)
        )

    def copy(self, other: _Rows, kept: Indices, moved: Indices) -> None:
        """Copies nodes from another table, and renumbers their links.

        Args:
            other: Table to copy from.
            kept: Rows of the nodes to copy.
            moved: New row of each old row, followed by -1 for "none".
        """
        places = moved[kept]
        for own, others in zip(self._plain(), other._plain(), strict=True):
            own[places] = others[kept]
        self.next[places] = moved[other.next[kept]]
        self.children[places] = moved[other.children[kept]]
        parents = moved[other.parents[kept]]
        self.parents[places] = np.where(parents == _NONE, places, parents)

    def _plain(self) -> tuple[NDArray[Any], ...]:
        """Arrays that `copy` transfers unchanged: statistics of nodes and edges, without the links between rows."""
        return (
            self.states,
            self.best,
            self.is_end,
            self.movers,
            self.worth,
            self.counts,
            self.visits,
            self.sums,
            self.means,
            self.priors,
            self.urges,
        )


class BatchedSearch:
    """Monte Carlo tree search with PUCT in B parallel games.

    A simulation follows the actions with the highest scores down to an untried one, which it expands. The predicted
    value is backed up along the path, with opposite signs for the two players. An action's score is

        Q(s, a) + exploration * P(s, a) * sqrt(N(s)) / (1 + N(s, a)).

    Q is the mean of the backed-up values; before the first visit, it is the position's predicted value minus
    `first_play_reduction`. N(s) counts the position's own prediction as well. The value of a terminal position is its
    result.

    Nodes are rows of arrays; the nodes of game b begin at row b * capacity. Best actions are cached, since scores
    change only along a simulation's path.

    Args:
        game: Rules of the game.
        predict: Leaf evaluation: priors and values of positions.
        settings: Settings of the search.

    Source:
        Silver et al., "Mastering the game of Go without human knowledge", Nature 550 (2017), Methods, "Search
        algorithm", and "Self-play" for the noise at the root.
    """

    def __init__(self, game: ArrayGame, predict: Predict, settings: SearchSettings) -> None:
        self.game = game
        self.predict = predict
        self.settings = settings

    def begin(self, states: States) -> None:
        """Starts a search in B games: new trees with positions [B] at the roots."""
        self._games = np.arange(len(states))
        self._sizes = np.zeros(len(states), np.int64)
        self._capacity = 1
        self._rows = _Rows(len(states), self.game.num_actions, states)
        self._roots = self._add(self._games, states)
        self._choose(self._roots)

    def restart(self, games: Indices, states: States) -> None:
        """Replaces the trees of some games with new trees rooted at positions [n]."""
        self._make_room(1)
        self._roots[games] = self._add(games, states)
        self._choose(self._roots[games])

    def run(self, simulations: int, generator: np.random.Generator | None = None) -> None:
        """Runs simulations in each unfinished game.

        Args:
            simulations: Number of simulations per game.
            generator: Random generator for the root noise; None for no noise.
        """
        if generator is not None:
            self._add_noise(generator)
        self._make_room(simulations)
        going = (~self._rows.is_end[self._roots]).nonzero()[0]
        for _ in range(simulations if len(going) else 0):
            self._simulate(going)

    def advance(self, actions: Indices) -> None:
        """Plays an action in each game, and keeps the subtree of the successor as the new tree.

        Args:
            actions: Legal actions, [B], ignored in finished games.
        """
        ended = self.ended
        untried = ((self._rows.children[self._roots, actions] == _NONE) & ~ended).nonzero()[0]
        if len(untried):
            self._make_room(1)
            self._choose(self._expand(untried, self._roots[untried], actions[untried]))
        rows = self._rows
        self._roots = np.where(ended, self._roots, rows.children[self._roots, actions])

    @property
    def states(self) -> States:
        """Positions at the roots, [games]."""
        found: States = self._rows.states[self._roots]
        return found

    @property
    def ended(self) -> Flags:
        """Mask of games whose root is terminal, [games]."""
        return self._rows.is_end[self._roots]

    @property
    def visits(self) -> Floats:
        """Visit counts of the roots' actions, [games, num_actions]."""
        return self._rows.visits[self._roots]

    @property
    def values(self) -> Floats:
        """Root values for the players to move, [games]: mean backed-up value, or the result of a finished game."""
        rows = self._rows
        roots = self._roots
        mean: Floats = (rows.worth[roots] + rows.sums[roots].sum(1)) / rows.counts[roots]
        return mean

    def _simulate(self, going: Indices) -> None:
        """Runs one simulation in each of the given games: selection, expansion, evaluation and backup."""
        rows = self._rows
        at, game = self._roots[going], going
        last = self._roots.copy()
        ways, games = [], []
        while len(at):
            ways.append(at)
            games.append(game)
            last[game] = at
            at = rows.next[at]
            found = at >= 0
            if not found.all():
                at, game = at[found], game[found]
        way, game = np.concatenate(ways), np.concatenate(games)
        tried = going
        if rows.is_end[last[going]].any():
            inner = ~rows.is_end[way]
            way, game = way[inner], game[inner]
            tried = going[~rows.is_end[last[going]]]
        parents = last[tried]
        new = self._expand(tried, parents, rows.best[parents])
        last[tried] = new
        worth = rows.worth[last] * rows.movers[last]
        edges = way * self.game.num_actions + rows.best[way]
        visits, sums = rows.edge_visits[edges] + 1, rows.edge_sums[edges] + worth[game] * rows.movers[way]
        rows.edge_visits[edges] = visits
        rows.edge_sums[edges] = sums
        rows.edge_means[edges] = sums / visits
        rows.edge_urges[edges] = rows.edge_priors[edges] / (1 + visits)
        rows.counts[way] += 1
        self._choose(np.concatenate([way, new]))

    def _choose(self, nodes: Indices) -> None:
        """Updates the cached best actions of nodes: the argmax of the PUCT score."""
        rows = self._rows
        weight = self.settings.exploration * np.sqrt(rows.counts[nodes])
        scores = rows.urges[nodes]
        scores *= weight[:, None]
        scores += rows.means[nodes]
        best = scores.argmax(1)
        rows.best[nodes] = best
        rows.next[nodes] = rows.children[nodes, best]

    def _expand(self, games: Indices, parents: Indices, actions: Indices) -> Indices:
        """Expands untried actions; returns the rows of the new nodes."""
        rows = self._rows
        if not len(games):
            return games
        nodes = self._add(games, self.game.play(rows.states[parents], actions))
        rows.parents[nodes] = parents
        rows.children[parents, actions] = nodes
        return nodes

    def _add(self, games: Indices, states: States) -> Indices:
        """Adds and evaluates a position in each of the given games; returns the rows of the new nodes."""
        rows = self._rows
        nodes = games * self._capacity + self._sizes[games]
        self._sizes[games] += 1
        ended, outcomes = self.game.results(states)
        rows.states[nodes] = states
        rows.parents[nodes] = nodes
        rows.movers[nodes] = self.game.movers(states)
        rows.is_end[nodes] = ended
        rows.counts[nodes] = 1
        rows.worth[nodes] = outcomes
        live = nodes
        if ended.any():
            _check_results(outcomes[ended])
            live, states = nodes[~ended], states[~ended]
        if len(live):
            legal = self.game.legal(states)
            priors, values = self.predict(states, legal)
            first = values - np.float32(self.settings.first_play_reduction)
            rows.worth[live] = values
            rows.priors[live] = priors
            rows.urges[live] = priors
            rows.means[live] = np.where(legal, first[:, None], -np.inf)
        return nodes

    def _add_noise(self, generator: np.random.Generator) -> None:
        """Mixes Dirichlet noise into the roots' prior probabilities."""
        rows = self._rows
        roots = self._roots[~self.ended]
        legal = np.isfinite(rows.means[roots])
        drawn = generator.standard_gamma(self.settings.noise_concentration, legal.shape) * legal
        drawn /= np.maximum(drawn.sum(1, keepdims=True), np.finfo(np.float64).tiny)
        share = self.settings.noise_fraction
        rows.priors[roots] = (1 - share) * rows.priors[roots] + share * drawn
        rows.urges[roots] = rows.priors[roots] / (1 + rows.visits[roots])
        self._choose(roots)

    def _make_room(self, nodes: int) -> None:
        """Ensures capacity for further nodes per game: drops nodes outside the roots' subtrees if necessary."""
        if self._sizes.max() + nodes <= self._capacity:
            return
        games, old = len(self._sizes), self._capacity
        inside = (np.arange(old) < self._sizes[:, None]).ravel()
        keep = np.zeros(games * old, np.bool_)
        keep[self._roots] = True
        while not (keep == (more := keep | (keep[self._rows.parents] & inside))).all():
            keep = more
        kept, of_game = keep.nonzero()[0], keep.reshape(games, old)
        self._sizes = of_game.sum(1)
        self._capacity = int(self._sizes.max()) + nodes
        places = (np.cumsum(of_game, 1) - 1 + self._capacity * self._games[:, None]).ravel()
        moved = np.append(np.where(keep, places, _NONE), _NONE)
        rows = self._rows
        self._rows = _Rows(games * self._capacity, self.game.num_actions, rows.states)
        self._rows.copy(rows, kept, moved)
        self._roots = moved[self._roots]


def _check_results(outcomes: Floats) -> None:
    """Validates that results of games are within the range of a tanh value network.

    Raises:
        EnvironmentUnusable: A result is outside of [-1, 1], or NaN.
    """
    outside = outcomes[~(np.abs(outcomes) <= 1)]
    if len(outside):
        raise EnvironmentUnusable(
            f"a game ended with the result {outside[0]:g}, but tree search needs results from -1 to 1: make "
            "the game return such results, or, in a one-player game, set config.ranked_returns"
        )
