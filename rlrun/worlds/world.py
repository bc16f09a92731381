"""What a world of many agents does, told in dicts by agent id: the interface for worlds of one's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.envs.env_config import WorldClock
from rlrun.envs.spaces import Spaces
from rlrun.worlds.array_game import ArrayGame

Info = Mapping[str, Any]


class WorldStep(NamedTuple):
    """What a step of a world gave, by agent id; who is not named got no observation, a reward of 0, and lives on.

    Attributes:
        observations: Of every agent that acts next; and of those that ended their final one, where there is one.
        rewards: Of any agents, whether they acted or not.
        terminateds: Whether an agent's episode ended for good.
        truncateds: Whether it was cut off.
        infos: What else an agent's end has to say; numbers in it become metrics.
        ended: Whether the world's episode is over, with the episodes of all agents that are left.
    """

    observations: Mapping[str, Any]
    rewards: Mapping[str, float]
    terminateds: Mapping[str, bool]
    truncateds: Mapping[str, bool]
    infos: Mapping[str, Info]
    ended: bool


class World(ABC):
    """Many agents in one world; they may appear and disappear at any step.

    An agent's episode begins with its first observation and ends when a step says so. Who has an observation that is
    not final acts next, and nobody else: a turn-based world shows one to the player whose turn it is. An id may come
    back within an episode of the world, as another life.

    Attributes:
        clock: Time axis of experience: one row per world step, or per agent's decision.
        possible_agents: Ids of agents, at least one of each kind; ids that are not among them may appear as well.
        state_space: Space of `state`, for what learns from the whole world's state; None where there is none.
    """

    clock: WorldClock = "parallel"
    possible_agents: Sequence[str]
    state_space: gymnasium.spaces.Box | None = None

    @abstractmethod
    def spaces(self, agent: str) -> Spaces:
        """Returns an agent's observation and action space, which never change."""

    @abstractmethod
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Begins an episode, the same one for the same seed.

        Returns:
            The observations of the agents that act first.
        """

    @abstractmethod
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Takes a step.

        Args:
            actions: Of every agent that had an observation and has not ended, and of nobody else.
        """

    def state(self) -> NDArray[Any]:
        """Returns the whole world's state, [D], if it has a `state_space`."""
        raise NotImplementedError(f"{type(self).__name__} has no state")

    def array_game(self) -> ArrayGame | None:
        """Returns the same world as a game that can be searched in; None, as by default, if it is none.

        Who moves first there is the first of `possible_agents`, and what movers see is what the agents here are shown.
        """
        return None

    def render(self) -> NDArray[np.uint8] | None:
        """Returns a picture [height, width, 3] of the world; None, as by default, if there is none."""
        return None

    def close(self) -> None:
        """Frees what the world holds; nothing by default."""
        return
