"""Scripted opponents, by name."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.action_masks import ACTION_MASK
from rlrun.data.tree import leaves, map_tree
from rlrun.errors import TrainingFailed, UsageError
from rlrun.registry import load_object

SEEDS = 2**24
"""How many seeds a number of a fragment's noise tells apart: it is a 32-bit float."""


class ScriptedOpponent:
    """A function from an observation to an action, or a class that is made with a seed and called like one.

    It is made anew for each decision, with a seed of the noise: what it does depends on nothing but the observation and
    that number, wherever it runs.

    Args:
        path: package.module:Name.

    Raises:
        UsageError: If there is no such thing, or it cannot be called.
    """

    def __init__(self, path: str) -> None:
        found = load_object(path, "scripted opponent")
        if not callable(found):
            raise UsageError(f"the scripted opponent '{path}' cannot be called: it is a {type(found).__name__}")
        self._path = path
        self._make: Callable[[int], Callable[[Any], Any]] = found if isinstance(found, type) else lambda seed: found

    def decide(self, observations: Any, noise: NDArray[np.float32], slots: list[int]) -> list[Any]:
        """Returns its actions in the world's terms for observations [B, ...], of the given slots, [N].

        Args:
            observations: What all slots show.
            noise: A number from 0 to 1 for each slot, [B].
            slots: Those that act.

        Raises:
            TrainingFailed: It raises, or returns no numbers.
        """
        seen = [map_tree(lambda leaf, slot=slot: leaf[slot], observations) for slot in slots]
        seeds = (noise[slots] * SEEDS).astype(np.int64).tolist()
        try:
            actions = [self._make(seed)(observation) for seed, observation in zip(seeds, seen, strict=True)]
        except (Exception, SystemExit) as error:
            told = "".join(traceback.format_exception(error)).rstrip()
            raise TrainingFailed(f"the scripted opponent {self._path} raised:\n{told}") from error
        if np.asarray(actions).dtype == object:
            raise TrainingFailed(f"the scripted opponent {self._path} must return an action, not {actions[0]!r}")
        return actions


class ScriptedPlayer:
    """A scripted opponent as evaluations know policies.

    Args:
        path: package.module:Name.
        dtype: Type of an action in the world's terms.
        shape: Its shape.
        seed: Seed of what it draws.
    """

    def __init__(self, path: str, dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> None:
        self._opponent = ScriptedOpponent(path)
        self._dtype, self._shape = dtype, shape
        self._draws = np.random.Generator(np.random.Philox(seed))

    def begin_episodes(self, starts: NDArray[np.bool_]) -> None:
        """Remembers nothing that an episode's start would end."""

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Looks at no rewards."""

    def actions(
        self, observations: Any, generator: np.random.Generator | None, acts: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Returns its actions for the world, [B, ...]; zeros where nobody acts. The generator is not asked."""
        number = len(leaves(observations)[0])
        slots = list(range(number)) if acts is None else acts.nonzero()[0].tolist()
        actions = np.zeros((number, *self._shape), self._dtype)
        if slots:
            actions[slots] = self._opponent.decide(observations, self._draws.random(number, np.float32), slots)
        return actions


def undecided(observations: Any, acts: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns which of the slots that show something have an action to choose, [B].

    Where an action mask allows none, the observation is an episode's final one.
    """
    if isinstance(observations, dict) and ACTION_MASK in observations:
        allowed: NDArray[np.bool_] = observations[ACTION_MASK].any(axis=-1)
        return acts & allowed
    return acts
