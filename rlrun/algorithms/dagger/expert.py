"""Experts that DAgger queries: a function, a class with memory, or the policy of a checkpoint (NumPy)."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.space_kinds import batched
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.league.scripted_opponent import SEEDS
from rlrun.engine.messages.errors import TrainingFailed, UsageError
from rlrun.engine.policy.action_spaces.action_space import Floats
from rlrun.engine.policy.behavior import BehaviorPolicy
from rlrun.engine.settings.registry import load_object


class Expert(Protocol):
    """Protocol of an expert, which maps observations [envs, ...] to env actions [envs, ...]."""

    def __call__(self, observations: Any, episode_starts: NDArray[np.bool_], draws: Floats) -> Any:
        """Actions for observations of consecutive steps.

        Args:
            observations: Observations, [B, ...].
            episode_starts: Mask of the observations that start an episode, [B].
            draws: A random number from 0 to 1 for each, [B]; all randomness is derived from the numbers at episode
                starts.
        """

    def take_actions(self, actions: Any) -> None:
        """Receives the env actions [envs, ...] executed in the last step; used by experts with memory."""

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Receives the rewards [envs] of the last step; used by experts with memory."""

    def memory(self) -> dict[str, Any]:
        """State of the expert's memory of running episodes; empty for an expert without memory."""

    def load_memory(self, memory: Mapping[str, Any]) -> None:
        """Restores the expert's memory of running episodes from the result of `memory()`."""


Script = Callable[[Any], Any]
"""Type of a function from an observation to an action of the env."""


@dataclass
class ScriptedEpisode:
    """Instance of a scripted expert with memory, for one running episode.

    Checkpoints save the observations so far; a resumed run passes them to a new instance.

    Attributes:
        seed: Seed of the instance.
        script: The instance: a function from observation to action that remembers the episode.
        seen: Observations so far, in order.
    """

    seed: int
    script: Script
    seen: list[Any] = field(default_factory=list)

    def act(self, observation: Any) -> Any:
        """Returns the scripted expert's action for an observation, and records the observation."""
        self.seen.append(map_tree(np.copy, observation))  # the env may overwrite it
        return self.script(observation)


class ScriptedExpert:
    """Expert given by an import path: a function from observation to env action, or a class whose instances act as one.

    A class is instantiated with a seed for each episode; its instances are callable, and may remember the episode.

    Args:
        path: `package.module:Name`.
        spaces: Observation and action space.

    Raises:
        UsageError: There is no such function or class.
    """

    def __init__(self, path: str, spaces: Spaces) -> None:
        self._path = path
        self._spaces = spaces
        self._named: Any = load_object(path, "expert")
        self._episodes: list[ScriptedEpisode] = []  # by env slot; used if the expert is a class
        if not callable(self._named):
            raise UsageError(f"expert '{path}' must be a function, got {type(self._named).__name__}")

    def __call__(self, observations: Any, episode_starts: NDArray[np.bool_], draws: Floats) -> Any:
        """Actions for observations [B, ...].

        Raises:
            TrainingFailed: The function raises, or returns no action of the env; the message holds its traceback.
        """
        slots = range(len(leaves(observations)[0]))
        seen = [map_tree(lambda leaf, slot=slot: leaf[slot], observations) for slot in slots]
        try:
            scripts = self._scripts(episode_starts, draws)
            actions = [script(observation) for script, observation in zip(scripts, seen, strict=True)]
        except (Exception, SystemExit) as error:
            text = "".join(traceback.format_exception(error)).rstrip()
            raise TrainingFailed(f"expert {self._path} raised:\n{text}") from error
        for action in actions:
            if action not in self._spaces.action:
                raise TrainingFailed(
                    f"expert {self._path} must return an action in {self._spaces.action}, got {action!r}"
                )
        return batched(self._spaces.action, *actions)

    def _scripts(self, episode_starts: NDArray[np.bool_], draws: Floats) -> Sequence[Script]:
        """The script of each slot, a new one where an episode starts."""
        if not isinstance(self._named, type):
            return [self._named] * len(episode_starts)
        begun = [
            self._begun(int(draw * SEEDS)) if starts or not self._episodes else self._episodes[slot]
            for slot, (starts, draw) in enumerate(zip(episode_starts, draws, strict=True))
        ]
        self._episodes = begun
        return [episode.act for episode in begun]

    def _begun(self, seed: int) -> ScriptedEpisode:
        return ScriptedEpisode(seed, self._named(seed))

    def take_actions(self, actions: Any) -> None:
        """Ignores the executed actions, since a scripted expert sees only observations."""

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Ignores rewards, since a scripted expert sees only observations."""

    def memory(self) -> dict[str, Any]:
        """Seeds and observations of the running episodes if the expert is a class; empty for a function."""
        return {
            str(slot): {"seed": episode.seed, "seen": list(episode.seen)} for slot, episode in enumerate(self._episodes)
        }

    def load_memory(self, memory: Mapping[str, Any]) -> None:
        """Restores the running episodes: creates new instances of the class, and shows them the saved observations."""
        self._episodes = [self._begun(int(memory[str(slot)]["seed"])) for slot in range(len(memory))]
        for slot, episode in enumerate(self._episodes):
            for observation in memory[str(slot)]["seen"]:
                episode.act(observation)


class SavedExpert:
    """Expert that takes the greedy actions of a checkpoint's policy.

    Args:
        path: Path of the checkpoint, followed by `:` and a policy's name if the checkpoint holds several policies.
        spaces: Observation and action space.

    Raises:
        CheckpointError: The checkpoint cannot be used.
        UsageError: The policy does not fit the env.
    """

    def __init__(self, path: str, spaces: Spaces) -> None:
        from rlrun.engine.training.save.saved_opponents import read_opponent

        try:
            frozen = read_opponent(path).in_world(spaces, None)
        except UsageError as error:
            raise UsageError(f"expert {path}: {error}") from error
        self._behavior: BehaviorPolicy = frozen.make()
        self._behavior.load(frozen.weights)

    @property
    def behavior(self) -> BehaviorPolicy:
        """Behavior policy of the checkpoint, which acts as the expert."""
        return self._behavior

    def __call__(self, observations: Any, episode_starts: NDArray[np.bool_], draws: Floats) -> Any:
        """Most likely actions for observations [B, ...]; the draws are ignored."""
        self._behavior.begin_episodes(episode_starts)
        return self._behavior.actions(observations, None)

    def distribution(self, observations: Any, episode_starts: NDArray[np.bool_]) -> tuple[Floats, Any]:
        """Parameters of the action distributions [envs, num_outputs], and greedy env actions [envs, ...]."""
        behavior = self._behavior
        behavior.begin_episodes(episode_starts)
        outputs = behavior.outputs(observations)
        likeliest = behavior.action_space.mode(outputs)
        behavior.memory.remember(likeliest, None)
        return outputs, behavior.action_space.to_env(likeliest)

    def take_actions(self, actions: Any) -> None:
        """Replaces the last actions in the policy's memory with the executed actions."""
        self._behavior.take_actions(actions)

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Passes the rewards of the last step to the policy's memory."""
        self._behavior.take_rewards(rewards)

    def memory(self) -> dict[str, Any]:
        """State that the policy carries between steps, such as a recurrent state."""
        return self._behavior.memory.state()

    def load_memory(self, memory: Mapping[str, Any]) -> None:
        """Restores the state that the policy carries between steps, from `memory()`."""
        self._behavior.memory.load_state(memory)


def expert_at(path: str, spaces: Spaces) -> Expert:
    """Loads the expert named in a setting: a function or class by import path, or the policy of a checkpoint.

    Raises:
        CheckpointError: There is no such checkpoint, or it cannot be used.
        UsageError: There is no such function, or the checkpoint's policy does not fit the env.
    """
    module = path.partition(":")[0]
    is_function = ":" in path and all(word.isidentifier() for word in module.split("."))
    return ScriptedExpert(path, spaces) if is_function else SavedExpert(path, spaces)
