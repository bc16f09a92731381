"""Experts that DAgger asks: a function, or the policy of a checkpoint (NumPy)."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.data.space_kinds import batched
from rlrun.data.tree import leaves, map_tree
from rlrun.envs.spaces import Spaces
from rlrun.errors import TrainingFailed, UsageError
from rlrun.policy.action_spaces.action_space import Floats
from rlrun.policy.behavior import BehaviorPolicy
from rlrun.registry import load_object


class Expert(Protocol):
    """Expert: maps observations [B, ...] to the env's actions [B, ...]."""

    def __call__(self, observations: Any, episode_starts: NDArray[np.bool_]) -> Any:
        """Actions for observations of consecutive steps; `episode_starts` [B] marks those that start an episode."""

    def take_actions(self, actions: Any) -> None:
        """Receives the actions of the env [B, ...] that were executed in the last step."""

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Receives the rewards [B] of the last step."""

    def memory(self) -> dict[str, Any]:
        """Memory of the running episodes; empty for an expert without any."""

    def load_memory(self, memory: Mapping[str, Any]) -> None:
        """Restores `memory()`."""


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

    def take_actions(self, actions: Any) -> None:
        """Ignores what was executed: a function has no memory."""

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Ignores rewards: a function has no memory."""

    def memory(self) -> dict[str, Any]:
        """No memory."""
        return {}

    def load_memory(self, memory: Mapping[str, Any]) -> None:
        """Ignores the memory, which is empty."""


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

    @property
    def behavior(self) -> BehaviorPolicy:
        """The policy as it acts."""
        return self._behavior

    def __call__(self, observations: Any, episode_starts: NDArray[np.bool_]) -> Any:
        """Actions for observations [B, ...]."""
        self._behavior.begin_episodes(episode_starts)
        return self._behavior.actions(observations, None)

    def distribution(self, observations: Any, episode_starts: NDArray[np.bool_]) -> tuple[Floats, Any]:
        """Parameters of the action distributions [B, K], and the likeliest actions of the env [B, ...]."""
        behavior = self._behavior
        behavior.begin_episodes(episode_starts)
        outputs = behavior.outputs(observations)
        likeliest = behavior.action_space.mode(outputs)
        behavior.remember(likeliest, None)
        return outputs, behavior.env_actions(likeliest)

    def take_actions(self, actions: Any) -> None:
        """Replaces the policy's last actions in its memory by those that were executed."""
        self._behavior.take_actions(actions)

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Passes the rewards of the last step to the policy's memory."""
        self._behavior.take_rewards(rewards)

    def memory(self) -> dict[str, Any]:
        """Recurrent state and view memory of the policy."""
        return self._behavior.memory()

    def load_memory(self, memory: Mapping[str, Any]) -> None:
        """Restores recurrent state and view memory."""
        self._behavior.load_memory(memory)


def expert_at(path: str, spaces: Spaces) -> Expert:
    """Loads the expert that a setting names: a function by its import path, or a checkpoint.

    Raises:
        CheckpointError: There is no such checkpoint, or it cannot be used.
        UsageError: There is no such function, or the checkpoint's policy does not fit the env.
    """
    module = path.partition(":")[0]
    is_function = ":" in path and all(word.isidentifier() for word in module.split("."))
    return ScriptedExpert(path, spaces) if is_function else SavedExpert(path, spaces)
