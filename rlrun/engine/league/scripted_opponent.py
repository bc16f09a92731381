"""Opponents in a league that are Python functions instead of trained policies, given by name or import path."""

from __future__ import annotations

import ast
import inspect
import re
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.messages.errors import TrainingFailed, UsageError, did_you_mean
from rlrun.engine.settings.registry import load_object

BUILT_IN = {
    "mcts": "rlrun.toys:TreeSearch",
    "minimax": "rlrun.toys:Minimax",
    "one_ply": "rlrun.toys:OnePly",
    "random": "rlrun.toys:RandomLegal",
}
"""Import paths of the built-in scripted opponents by name."""

_WRITTEN = re.compile(r"(?P<name>[^()]+)(\((?P<settings>.*)\))?", re.DOTALL)

SEEDS = 2**24
"""Number of distinct seeds derivable from a noise entry, which is a 32-bit float."""


class ScriptedOpponent:
    """Opponent that is a script: a function from observation to action, or a class whose instances are such functions.

    A class is instantiated for each decision with a seed drawn from `noise`. Actions thus depend only on the
    observation and that seed, not on the process in which the opponent runs.

    Args:
        path: `random`, `one_ply`, `minimax` or `mcts`, or package.module:Name; a class may have settings in addition to
            its seed, as in `minimax(depth=5)`.

    Raises:
        UsageError: The object does not exist, is not callable, or rejects its settings.
    """

    def __init__(self, path: str) -> None:
        name, settings = _read(path)
        found = load_object(BUILT_IN.get(name, name), "scripted opponent")
        if not callable(found):
            raise UsageError(f"scripted opponent '{path}' must be callable, but its type is {type(found).__name__}")
        self._path = path
        self._make: Callable[[int], Callable[[Any], Any]] = lambda seed: found
        if isinstance(found, type):
            self._make = partial(found, **settings) if settings else found
        if settings:
            _check(found, settings, path)

    def decide(self, observations: Any, noise: NDArray[np.float32], slots: list[int]) -> list[Any]:
        """Returns the actions of agents in B slots, one agent per slot, in the env's action space.

        Args:
            observations: Observations of all slots, [B, ...].
            noise: A number from 0 to 1 for each slot, [B].
            slots: Indices of the slots whose agents act.

        Raises:
            TrainingFailed: The opponent raises an exception, or returns something other than numbers.
            UsageError: A built-in opponent does not support this env.
        """
        seen = [map_tree(lambda leaf, slot=slot: leaf[slot], observations) for slot in slots]
        seeds = (noise[slots] * SEEDS).astype(np.int64).tolist()
        try:
            actions = [self._make(seed)(observation) for seed, observation in zip(seeds, seen, strict=True)]
        except UsageError as error:  # the message names the worlds that the opponent supports
            raise UsageError(f"scripted opponent {self._path}: {error}") from error
        except (Exception, SystemExit) as error:
            text = "".join(traceback.format_exception(error)).rstrip()
            raise TrainingFailed(f"scripted opponent {self._path} raised:\n{text}") from error
        if np.asarray(actions).dtype == object:
            raise TrainingFailed(f"scripted opponent {self._path} must return an action, not {actions[0]!r}")
        return actions


class ScriptedPlayer:
    """Adapter that gives a scripted opponent the interface of a policy, for evaluation games.

    Args:
        path: Name or import path of the opponent.
        dtype: Data type of an action in the env's action space.
        shape: Shape of an action.
        seed: Seed of the opponent's random choices.
    """

    def __init__(self, path: str, dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> None:
        self._opponent = ScriptedOpponent(path)
        self._dtype, self._shape = dtype, shape
        self._draws = np.random.Generator(np.random.Philox(seed))

    def begin_episodes(self, starts: NDArray[np.bool_]) -> None:
        """Does nothing: scripted opponents have no memory."""

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Does nothing: scripted opponents see no rewards."""

    def actions(
        self, observations: Any, generator: np.random.Generator | None, acts: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Returns the actions of B slots, with zeros where no agent acts.

        The player has a separate random generator; `generator` is not used.
        """
        number = len(leaves(observations)[0])
        slots = list(range(number)) if acts is None else acts.nonzero()[0].tolist()
        actions = np.zeros((number, *self._shape), self._dtype)
        if slots:
            actions[slots] = self._opponent.decide(observations, self._draws.random(number, np.float32), slots)
        return actions


def names_script(text: str) -> bool:
    """Whether a text names a scripted opponent, with optional settings, rather than the path of a checkpoint.

    Examples:
        >>> names_script("minimax(depth=5)"), names_script("my_lab.players:Greedy"), names_script("runs/old")
        (True, True, False)
    """
    name = text.partition("(")[0]
    return name in BUILT_IN or ":" in name


def _read(path: str) -> tuple[str, dict[str, Any]]:
    """Parses the text of a scripted opponent into name and settings.

    Raises:
        UsageError: The name is unknown, or the settings are not numbers and texts by name.
    """
    written = _WRITTEN.fullmatch(path)
    name = path if written is None else written["name"].strip()
    if ":" not in name and name not in BUILT_IN:
        raise UsageError(
            f"unknown scripted opponent '{path}'; must be one of: {', '.join(BUILT_IN)}, or "
            f"package.module:Name{did_you_mean(name, BUILT_IN)}"
        )
    try:
        call = ast.parse(f"f({(written and written['settings']) or ''})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError
        return name, {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError):
        raise UsageError(f"scripted opponent '{path}': write settings as in minimax(depth=5)") from None


def _check(found: Callable[..., Any], settings: Mapping[str, Any], path: str) -> None:
    """Validates settings against the signature of the opponent's class.

    Raises:
        UsageError: A setting does not match the constructor's parameters.
    """
    known = list(inspect.signature(found).parameters)[1:] if isinstance(found, type) else []
    for setting in settings:
        if setting not in known:
            there = f"only {', '.join(known)}" if known else "and no settings at all"
            raise UsageError(
                f"scripted opponent '{path}' has no setting '{setting}', {there}{did_you_mean(setting, known)}"
            )
    try:
        found(0, **settings)
    except (TypeError, ValueError) as error:
        raise UsageError(f"scripted opponent '{path}': {error}") from error


def undecided(observations: Any, acts: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns a mask [B] of the slots that need a decision: those in which an agent acts and has a legal action.

    An action mask without legal actions marks an episode's final observation.
    """
    if isinstance(observations, dict) and ACTION_MASK in observations:
        allowed: NDArray[np.bool_] = observations[ACTION_MASK].any(axis=-1)
        return acts & allowed
    return acts
