"""Interface of vectorized multi-agent worlds: each policy has agent slots, and each slot holds one agent at a time.

The slots of a policy are ordered by world: B = W * K, where K is the number of slots that the policy has in each world.
An agent occupies its slot from its first observation to its last. Ends follow Gymnasium's NEXT_STEP autoreset: after
the step in which an agent ended, its slot holds the final observation and does not act. From the next step on, the slot
is free for another agent. A world whose episode ended is reset in the next step, in which its actions are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.engine.envs.env_config import WorldClock
from rlrun.engine.envs.episode_position import EpisodePosition
from rlrun.engine.envs.spaces import Spaces

Tree = Any
Flags = NDArray[np.bool_]


ONLY_AGENT = ""
"""Agent id in single-agent envs."""


@dataclass
class SlotRows:
    """Observations, rewards and episode ends of one policy's B slots; the next step overwrites the arrays.

    Attributes:
        observations: Arrays [B, ...]; values are undefined for slots that neither act nor have just ended.
        acts: Whether the slot's agent acts on the observation now, [B].
        starts: Whether the observation is the first of the agent's episode, [B].
        rewards: Rewards of the slots' agents, [B] float64; 0 for empty slots.
        terminateds: Whether the agent's episode terminated in the step, [B].
        truncateds: Whether the agent's episode was truncated in the step, [B].
        living: Whether the slot's agent is still alive after the step, whether it acts now or not, [B].
        columns: Recorded info entries of the slots' agents by name, each [B]; 0 if absent.
    """

    observations: Tree
    acts: Flags
    starts: Flags
    rewards: NDArray[np.float64]
    terminateds: Flags
    truncateds: Flags
    living: Flags
    columns: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)


@dataclass
class WorldRows:
    """Result of one step of W multi-agent envs (worlds).

    Attributes:
        policies: Observations, rewards and episode ends of the slots, by policy.
        states: Global states, [W, D]; None without a state space, or if they are not read.
        stepped: Whether a world took a step, [W]; the other worlds were reset.
        ended: Whether a world's episode ended in the step, [W].
        infos: Infos of agents that ended in the step, by policy and slot.
        missing_finals: Number of agents truncated without a final observation; their last observation is used instead.
        dropped_rewards: Number of rewards discarded because their agent had ended or never appeared.
        taken: Env actions that clients chose in the step, by policy and slot, each with the version of the policy's
            weights that the client used; the version is None if the client did not use the policy.
    """

    policies: Mapping[str, SlotRows]
    states: NDArray[Any] | None
    stepped: Flags
    ended: Flags
    infos: Mapping[str, Mapping[int, Mapping[str, Any]]]
    missing_finals: int
    dropped_rewards: int = 0
    taken: Mapping[str, Mapping[int, tuple[Any, int | None]]] = field(default_factory=dict)


class VectorWorld(Protocol):
    """Interface of W vectorized multi-agent envs (worlds); the module's docstring explains slots and autoreset.

    Attributes:
        num_worlds: Number of worlds, W.
        clock: Time axis of experience: one row per world step, or one row per agent's decision.
        slots: Number of slots of each policy in all worlds together, B.
        spaces: Observation and action space by policy.
        state_space: Space of the global state, None if there is no state.
        possible_agents: Ids of agents, at least one of each type, such as hunter and prey.
        columns: Names of numeric entries in agents' infos that are recorded as columns of the experience.
        seeds_episodes: Whether single worlds can be reset with their own seeds; otherwise `restore` starts new
            episodes.
        replays: Whether `restore` may replay logged actions in the worlds; see `World.replays`.
    """

    possible_agents: Sequence[str]
    num_worlds: int
    clock: WorldClock
    slots: Mapping[str, int]
    spaces: Mapping[str, Spaces]
    state_space: gymnasium.spaces.Box | None
    columns: Sequence[str]
    seeds_episodes: bool
    replays: bool

    def reset(self) -> WorldRows:
        """Starts the first episode of every world with the episode's seed; rewards are 0 and no episode ends."""
        ...

    def step(self, actions: Mapping[str, Tree]) -> WorldRows:
        """Steps all worlds; a world whose episode ended is reset instead (NEXT_STEP autoreset).

        Args:
            actions: Raw env actions by policy, arrays [B, ...]; ignored for slots that do not act.

        Raises:
            EnvError: A world raised an exception, or returned a value outside its agents' spaces.
        """
        ...

    def owners(self, policy: str) -> Sequence[str]:
        """Returns the id of the current or latest agent in each of a policy's B slots, [B].

        The id is "" if a slot has had no agent yet.
        """
        ...

    def places(self) -> list[EpisodePosition]:
        """Returns the current position of each world: episode number, seed and episode length so far."""
        ...

    def restore(
        self,
        places: Sequence[EpisodePosition],
        actions: Sequence[Mapping[str, Tree]],
        hashes: Sequence[str],
        max_replay_s: float,
    ) -> tuple[WorldRows, list[bool]]:
        """Brings each world back to a saved step of an episode by a seeded reset and a replay of the joint actions.

        Args:
            places: Saved position (episode, seed, step) of each world.
            actions: Actions of each world since its reset, by policy, arrays [length, K, ...].
            hashes: Expected digest (`hashes`) of each world at its position.
            max_replay_s: Time limit of the replay in seconds.

        Returns:
            Step result, and per world whether the restore was exact; if not, the world starts its next episode.

        Raises:
            EnvError: A world raised an exception, or returned a value outside its agents' spaces.
        """
        ...

    def hashes(self) -> list[str]:
        """Returns a digest of each world's current state: agents in slots, which of them act, and observations."""
        ...

    def render(self) -> NDArray[np.uint8] | None:
        """Renders the first world as an RGB image [height, width, 3]; None without rendering."""
        ...

    def close(self) -> None:
        """Frees the worlds' resources."""
        ...


def place_of(worlds: VectorWorld, policy: str, slot: int) -> str:
    """Returns the location of a slot's agent, as a phrase for messages: env or world, episode, and agent id."""
    world = slot // (worlds.slots[policy] // worlds.num_worlds)
    place, agent = worlds.places()[world], worlds.owners(policy)[slot]
    if agent == ONLY_AGENT:
        return f"env {world}, {place}"
    return f"world {world}, {place}, agent {agent!r} of policy {policy}"
