"""Adapter from games as Python objects to `ArrayGame`, for tree search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.messages.errors import EnvironmentUnusable
from rlrun.engine.worlds.games.array_game import Flags, Floats, Indices, States, Symmetries, Tree

CHECKED_ACTIONS = 20
"""Number of actions in the check that a clone's observations equal the original's."""

_TOLERANCE = 1e-4
"""Tolerance when comparing an observation with the reconstructed position's, since observations are rounded."""


class Searchable(Protocol):
    """Deterministic single-player or two-player zero-sum game; an instance holds the current position.

    Attributes:
        mover: Player to act: 1 for the first, -1 for the second.
        result: Outcome for the player to act in a terminal position, in [-1, 1]; None before the end. With ranked
            rewards (`rlrun.algorithms.alphazero.ranked_rewards`), it is the episode's return.
    """

    @property
    def mover(self) -> int: ...  # noqa: D102 (an attribute)

    @property
    def result(self) -> float | None: ...  # noqa: D102 (an attribute)

    def observe(self) -> Tree:
        """Returns the observation of the player to act."""
        ...

    def legal(self) -> Flags:
        """Returns the mask of legal actions in this position, with one entry per action, [A]."""
        ...

    def play(self, action: int) -> None:
        """Advances the position by a legal action, in place."""
        ...

    def clone(self) -> Self:
        """Returns an independent copy of the position."""
        ...

    def at(self, observation: Tree) -> Self:
        """Reconstructs a position, equivalent for all future moves, from the observation of the player to act.

        Tree search outside training needs this method, since a policy then receives only observations.
        """
        ...


class ObjectGame:
    """Adapter that plays a batch of `Searchable` Python objects as an `ArrayGame`; actions are applied to clones.

    Args:
        name: Name of the game in messages.
        begin: Function from a seed to an initial position; equal seeds must give equal positions.
        num_actions: Size of the action space, A.

    Raises:
        EnvironmentUnusable: The objects violate the `Searchable` protocol, for example in `clone` or `at`.
    """

    def __init__(self, name: str, begin: Callable[[int], Searchable], num_actions: int) -> None:
        self.num_actions = num_actions
        self.symmetries = Symmetries.none(0, num_actions)
        self._begin = begin
        _check(name, begin(0), num_actions)

    def first(self, number: int, seed: int = 0) -> States:
        """Returns n initial positions for the seeds `seed`, `seed + 1`, and so on."""
        return _states([self._begin(seed + index) for index in range(number)])

    def legal(self, states: States) -> Flags:
        """Returns the masks of legal actions in n positions, [n, A]."""
        return np.array([state.legal() for state in states], np.bool_).reshape(-1, self.num_actions)

    def play(self, states: States, actions: Indices) -> States:
        """Returns the successors of n positions after one action in each; the given positions are unchanged."""
        played = [state.clone() for state in states]
        for state, action in zip(played, actions.tolist(), strict=True):
            state.play(action)
        return _states(played)

    def results(self, states: States) -> tuple[Flags, Floats]:
        """Returns the mask of terminal positions [n] and the outcomes for the players to act [n], 0 if not terminal."""
        results = [state.result for state in states]
        ended = np.array([result is not None for result in results], np.bool_)
        return ended, np.array([result or 0.0 for result in results], np.float32)

    def movers(self, states: States) -> Floats:
        """Returns the player to act in each position, [n]: 1 for the first, -1 for the second."""
        return np.array([state.mover for state in states], np.float32)

    def observe(self, states: States) -> Tree:
        """Returns the observations of the players to act in n positions, arrays [n, ...]."""
        seen = [state.observe() for state in states]
        if not seen:
            return map_tree(lambda leaf: np.asarray(leaf)[None][:0], self._begin(0).observe())
        return map_tree(lambda *own: np.stack(own), seen[0], *seen[1:])

    def positions(self, observations: Tree) -> States:
        """Reconstructs n positions from the observations of the players to act; the inverse of `observe`."""
        any_position = self._begin(0)
        number = len(leaves(observations)[0])
        rows = [map_tree(lambda leaf, row=row: leaf[row], observations) for row in range(number)]
        return _states([any_position.at(row) for row in rows])


def _states(positions: Sequence[Searchable]) -> NDArray[Any]:
    """Returns positions as an object array, [n]."""
    found = np.empty(len(positions), object)
    found[:] = positions
    return found


def _check(name: str, original: Searchable, num_actions: int) -> None:
    """Validates `clone` and `at` by playing equal actions in a position, its clone and its reconstruction.

    Raises:
        EnvironmentUnusable: The positions diverge, or a clone shares state with the original.
    """
    actions: list[int] = []
    generator = np.random.default_rng(0)
    shown, clone = original.observe(), original.clone()
    made, seen_by_clone = original.at(shown), []
    while clone.result is None and len(actions) < CHECKED_ACTIONS:
        legal = clone.legal()
        if legal.shape != (num_actions,) or not legal.any():
            _refuse(name, f"legal() must return which of {num_actions} actions are legal, at least one, not {legal!r}")
        actions.append(int(generator.choice(np.flatnonzero(legal))))
        clone.play(actions[-1])
        seen_by_clone.append(clone.observe())
    difference = _difference(original.observe(), shown, 0.0)
    if difference or original.result is not None:
        changed = difference or "it has ended"
        _refuse(name, f"a clone is not independent: {len(actions)} actions in it changed the original: {changed}")
    for number, (action, seen) in enumerate(zip(actions, seen_by_clone, strict=True), 1):
        for what, position, tolerance in (
            ("its original", original, 0.0),
            ("a game created by at()", made, _TOLERANCE),
        ):
            position.play(action)
            if difference := _difference(seen, position.observe(), tolerance):
                _refuse(name, f"after {number} equal actions, a clone and {what} differ: {difference}")
    for what, position in (("its original", original), ("a game created by at()", made)):
        if (position.result is None) != (clone.result is None):
            _refuse(name, f"after {len(actions)} equal actions, only one of a clone and {what} has ended")


def _difference(mine: Tree, theirs: Tree, tolerance: float) -> str:
    """Describes the first differing entries of two observations and their path; "" if equal."""
    for own, other in zip(leaves(mine), leaves(theirs), strict=True):
        first, second = np.asarray(own), np.asarray(other)
        differs = np.argwhere(~np.isclose(first, second, rtol=0.0, atol=tolerance, equal_nan=True))
        if len(differs):
            place = tuple(differs[0].tolist())
            return f"{first[place]} and {second[place]} at index {list(place)} of the observation"
    return ""


def _refuse(name: str, reason: str) -> None:
    raise EnvironmentUnusable(f"env {name} does not support tree search: {reason}")
