"""Experts that DAgger asks: a function, or the policy of a checkpoint (NumPy)."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.data.space_kinds import batched
from rlrun.data.tree import leaves, map_tree
from rlrun.envs.spaces import Spaces
from rlrun.errors import TrainingFailed, UsageError
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.registry import load_object


class Expert(Protocol):
    """Expert: maps observations [B, ...] to the env's actions [B, ...]."""

    def __call__(self, observations: Any, episode_starts: NDArray[np.bool_]) -> Any:
        """Actions for observations of consecutive steps; `episode_starts` [B] marks those that start an episode."""


class ScriptedExpert:
    """Function from an observation to an action of the env.

    Args:
        path: `package.module:function`.
        spaces: Observation and action space.

    Raises:
        UsageError: There is no such function.
    """

    def __init__(self, path: str, spaces: Spaces) -> None:
        self._path = path
        self._spaces = spaces
        self._function: Callable[[Any], Any] = load_object(path, "expert")
        if not callable(self._function):
            raise UsageError(f"the expert '{path}' is no function but {type(self._function).__name__}")

    def __call__(self, observations: Any, episode_starts: NDArray[np.bool_]) -> Any:
        """Actions for observations [B, ...].

        Raises:
            TrainingFailed: The function raises, or returns no action of the env; the message holds its traceback.
        """
        slots = range(len(leaves(observations)[0]))
        seen = [map_tree(lambda leaf, slot=slot: leaf[slot], observations) for slot in slots]
        try:
            actions = [self._function(observation) for observation in seen]
        except (Exception, SystemExit) as error:
            text = "".join(traceback.format_exception(error)).rstrip()
            raise TrainingFailed(f"the expert {self._path} raised:\n{text}") from error
        for action in actions:
            if action not in self._spaces.action:
                raise TrainingFailed(
                    f"the expert {self._path} must return an action of {self._spaces.action}, not {action!r}"
                )
        return batched(self._spaces.action, *actions)


class SavedExpert:
    """Policy of a checkpoint, which takes the likeliest actions.

    Args:
        path: Path of the checkpoint, PATH:policy if it holds several policies.
        spaces: Observation and action space.

    Raises:
        CheckpointError: The checkpoint cannot be used.
        UsageError: The policy does not fit the env.
    """

    def __init__(self, path: str, spaces: Spaces) -> None:
        from rlrun.training.saved_opponents import read_opponent

        try:
            frozen = read_opponent(path).in_world(spaces, None)
        except UsageError as error:
            raise UsageError(f"the expert {path}: {error}") from error
        self._behavior: BehaviorPolicy = frozen.make()
        self._behavior.load(frozen.weights)

    def __call__(self, observations: Any, episode_starts: NDArray[np.bool_]) -> Any:
        """Actions for observations [B, ...]."""
        self._behavior.begin_episodes(episode_starts)
        return self._behavior.actions(observations, None)


def expert_at(path: str, spaces: Spaces) -> Expert:
    """Loads the expert that a setting names: a function by its import path, or a checkpoint.

    Raises:
        CheckpointError: There is no such checkpoint, or it cannot be used.
        UsageError: There is no such function, or the checkpoint's policy does not fit the env.
    """
    module = path.partition(":")[0]
    is_function = ":" in path and all(word.isidentifier() for word in module.split("."))
    return ScriptedExpert(path, spaces) if is_function else SavedExpert(path, spaces)
