"""Games in Python objects as games that can be searched in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rlrun.data.tree import leaves, map_tree
from rlrun.errors import EnvironmentUnusable
from rlrun.worlds.array_game import Flags, Floats, States, Tree
from rlrun.worlds.symmetries import Indices, Symmetries

CHECKED_ACTIONS = 20
"""Actions after which a clone has to observe what its original does."""

_TOLERANCE = 1e-4
"""How far a position that is made of an observation may be from what it was made of: observations are rounded."""


class Searchable(Protocol):
    """A game without chance of one player, or of two who want the opposite: an object that stands at a position.

    Attributes:
        mover: 1 where the first player acts next, -1 where the second does.
        result: What the game's end is worth to the mover, -1 to 1; None while it goes on. Of a game whose returns are
            ranked (`rlrun.algorithms.alphazero.ranked_rewards`) it is the return.
    """

    @property
    def mover(self) -> int: ...  # noqa: D102 (an attribute)

    @property
    def result(self) -> float | None: ...  # noqa: D102 (an attribute)

    def observe(self) -> Tree:
        """Returns what the mover sees."""
        ...

    def legal(self) -> Flags:
        """Returns which actions are legal, [A]."""
        ...

    def play(self, action: int) -> None:
        """Goes on to the position behind a legal action."""
        ...

    def clone(self) -> Self:
        """Returns the same position; what happens to one does not happen to the other."""
        ...

    def at(self, observation: Tree) -> Self:
        """Returns a position in which the mover sees this, from which the game goes on as from the one that showed it.

        A policy that acts outside of training knows nothing but what it sees.
        """
        ...


class ObjectGame:
    """A game of `Searchable` objects, as a search plays it: each action is played in a clone.

    Args:
        name: What messages call the game.
        begin: Returns where the game begins, the same for the same seed.
        num_actions: Actions of a player, A.

    Raises:
        EnvironmentUnusable: The objects are no positions that can be searched from.
    """

    def __init__(self, name: str, begin: Callable[[int], Searchable], num_actions: int) -> None:
        self.num_actions = num_actions
        self.symmetries = Symmetries.none(0, num_actions)
        self._begin = begin
        _check(name, begin(0), num_actions)

    def first(self, number: int, seed: int = 0) -> States:
        """Returns so many positions in which the game begins, by the seeds from `seed` on."""
        return _states([self._begin(seed + index) for index in range(number)])

    def legal(self, states: States) -> Flags:
        """Returns the legal actions of each position, [n, A]."""
        return np.array([state.legal() for state in states], np.bool_).reshape(-1, self.num_actions)

    def play(self, states: States, actions: Indices) -> States:
        """Plays an action in a clone of each position."""
        played = [state.clone() for state in states]
        for state, action in zip(played, actions.tolist(), strict=True):
            state.play(action)
        return _states(played)

    def results(self, states: States) -> tuple[Flags, Floats]:
        """Returns which games have ended, and what that is worth to the mover, else 0."""
        results = [state.result for state in states]
        ended = np.array([result is not None for result in results], np.bool_)
        return ended, np.array([result or 0.0 for result in results], np.float32)

    def movers(self, states: States) -> Floats:
        """Returns 1 where the first player is the mover, -1 where the second is."""
        return np.array([state.mover for state in states], np.float32)

    def observe(self, states: States) -> Tree:
        """Returns what the movers see, leaves [n, ...]."""
        seen = [state.observe() for state in states]
        if not seen:
            return map_tree(lambda leaf: np.asarray(leaf)[None][:0], self._begin(0).observe())
        return map_tree(lambda *own: np.stack(own), seen[0], *seen[1:])

    def positions(self, observations: Tree) -> States:
        """Returns positions in which movers see this."""
        any_position = self._begin(0)
        number = len(leaves(observations)[0])
        rows = [map_tree(lambda leaf, row=row: leaf[row], observations) for row in range(number)]
        return _states([any_position.at(row) for row in rows])


def _states(positions: Sequence[Searchable]) -> NDArray[Any]:
    """Returns positions as an array of objects, [n]."""
    found = np.empty(len(positions), object)
    found[:] = positions
    return found


def _check(name: str, original: Searchable, num_actions: int) -> None:
    """Plays the same actions in a position, its clone, and one that is made of what it shows.

    Raises:
        EnvironmentUnusable: They differ, or what happens to the clone happens to its original.
    """
    actions: list[int] = []
    generator = np.random.default_rng(0)
    shown, clone = original.observe(), original.clone()
    made, seen_by_clone = original.at(shown), []
    while clone.result is None and len(actions) < CHECKED_ACTIONS:
        legal = clone.legal()
        if legal.shape != (num_actions,) or not legal.any():
            _refuse(name, f"legal() returned {legal!r}, not which of {num_actions} actions are, one of them at least")
        actions.append(int(generator.choice(np.flatnonzero(legal))))
        clone.play(actions[-1])
        seen_by_clone.append(clone.observe())
    difference = _difference(original.observe(), shown, 0.0)
    if difference or original.result is not None:
        changed = difference or "it has ended"
        _refuse(name, f"a clone is not independent: {len(actions)} actions in it changed its original: {changed}")
    for number, (action, seen) in enumerate(zip(actions, seen_by_clone, strict=True), 1):
        for what, position, tolerance in (("its original", original, 0.0), ("one made by at()", made, _TOLERANCE)):
            position.play(action)
            if difference := _difference(seen, position.observe(), tolerance):
                _refuse(name, f"after {number} equal actions a clone and {what} differ: they show {difference}")
    for what, position in (("its original", original), ("one made by at()", made)):
        if (position.result is None) != (clone.result is None):
            _refuse(name, f"after {len(actions)} equal actions one game has ended of a clone and {what}")


def _difference(mine: Tree, theirs: Tree, tolerance: float) -> str:
    """Returns the first numbers of two observations that differ, and where they stand; "" if none do."""
    for own, other in zip(leaves(mine), leaves(theirs), strict=True):
        first, second = np.asarray(own), np.asarray(other)
        differs = np.argwhere(~np.isclose(first, second, rtol=0.0, atol=tolerance, equal_nan=True))
        if len(differs):
            place = tuple(differs[0].tolist())
            return f"{first[place]} and {second[place]} at {list(place)} of what is observed"
    return ""


def _refuse(name: str, reason: str) -> None:
    raise EnvironmentUnusable(f"env {name} cannot be searched in: {reason}")
