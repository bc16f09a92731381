"""Interface that users' multi-agent envs implement, with dicts by agent id."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.engine.envs.env_config import WorldClock
from rlrun.engine.envs.spaces import Spaces

if TYPE_CHECKING:
    from rlrun.engine.worlds.games.array_game import ArrayGame
    from rlrun.engine.worlds.games.game_tree import GameTree

Info = Mapping[str, Any]


class WorldStep(NamedTuple):
    """Result of a world's step, with entries by agent id.

    Agents without entries have no observation and a reward of 0, and stay alive.

    Attributes:
        observations: Observations of all agents that act next, and final observations of ended agents, if any.
        rewards: Rewards of any agents, whether they acted or not.
        terminateds: Whether an agent's episode terminated.
        truncateds: Whether an agent's episode was truncated.
        infos: Infos of agents at their episode's end; numbers become metrics.
        ended: Whether the world's episode is over; ends the episodes of all living agents.
    """

    observations: Mapping[str, Any]
    rewards: Mapping[str, float]
    terminateds: Mapping[str, bool]
    truncateds: Mapping[str, bool]
    infos: Mapping[str, Info]
    ended: bool


class World(ABC):
    """Multi-agent environment whose agents may appear and end at any step.

    An agent's episode begins with the first observation and ends with a termination or truncation flag. Exactly the
    agents with a non-final observation act next: a turn-based world returns an observation only for the player to move.
    An id may be reused by a later agent within an episode of the world.

    Attributes:
        clock: Time axis of experience: one row per world step, or one row per agent's decision.
        possible_agents: Ids of agents, at least one of each type, such as hunter and prey; others may appear as well.
        state_space: Space of the global state, for centralized critics; None if there is no state.
        replays: Whether a resume may replay logged actions to bring the world back to its position. False if this would
            do harm, as with a live simulator or a robot; a resume then starts new episodes.
    """

    replays: bool = True
    clock: WorldClock = "parallel"
    possible_agents: Sequence[str]
    state_space: gymnasium.spaces.Box | None = None

    @property
    def unwrapped(self) -> Any:
        """The object inside all wrappers and adapters, such as a PettingZoo env; the world itself if there are none."""
        return self

    @abstractmethod
    def spaces(self, agent: str) -> Spaces:
        """Returns an agent's constant observation and action space."""

    @abstractmethod
    def reset(self, seed: int) -> Mapping[str, Any]:
        """Resets the world to an episode that is a deterministic function of the seed.

        Returns:
            The observations of the agents that act first.
        """

    @abstractmethod
    def step(self, actions: Mapping[str, Any]) -> WorldStep:
        """Takes a step.

        Args:
            actions: Actions by agent id: one for each agent with a non-final observation, and none for others.
        """

    def state(self) -> NDArray[Any]:
        """Returns the global state, a vector of D numbers, [D], if the world has a `state_space`."""
        raise NotImplementedError(f"{type(self).__name__} has no state")

    def array_game(self) -> ArrayGame | None:
        """Returns the equivalent game for tree search; None by default.

        The game's first player is the first of `possible_agents`, and the game's observations equal this world's
        observations.
        """
        return None

    def game_tree(self) -> GameTree | None:
        """Returns the first position of the equivalent game as a tree, for exact best responses; None by default.

        The tree's first player is the first of `possible_agents`, and the tree's observations equal this world's
        observations.
        """
        return None

    def render(self) -> NDArray[np.uint8] | None:
        """Renders the world as an RGB image [height, width, 3]; None by default."""
        return None

    def close(self) -> None:
        """Frees the world's resources; does nothing by default."""
        return
