"""W worlds side by side as arrays: each policy has slots, and each slot shows one agent at a time.

The slots of a policy are those of world 0, then those of world 1, and so on: B = W * K, where K is the number of slots
that the policy has in each world. An agent owns its slot from its first observation to its last. Ends follow the rule
of vector envs, NEXT_STEP: after the step that ended an agent, its slot shows its final observation and nobody acts
there. At the step behind that the slot is free for another agent. A world whose episode ended is reset in the step
after it, in which the actions for it are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.envs.env_config import WorldClock
from rlrun.envs.episode_place import EpisodePlace
from rlrun.envs.spaces import Spaces

Tree = Any
Flags = NDArray[np.bool_]


ONLY_AGENT = ""
"""Id of the agent of an env that has one."""


@dataclass
class SlotRows:
    """What the B slots of one policy show after a step; the arrays are the worlds' own and the next step changes them.

    Attributes:
        observations: Leaves [B, ...]; of slots that neither act nor have just ended, garbage of the right type.
        acts: Whether an agent is there that acts on its observation now, [B].
        starts: Whether that is the first observation of its episode, [B].
        rewards: What the slot's agent was given in the step, [B] float64; 0 where there is none.
        terminateds: Whether the agent's episode ended for good in the step, [B].
        truncateds: Whether it was cut off there, [B].
        living: Whether an agent owns the slot and goes on after the step, whether it acts now or not, [B].
        columns: Numbers that the infos of the slots' agents held in the step, by name, each [B]; 0 where there is none.
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
    """What W worlds show after a step.

    Attributes:
        policies: By policy, what its slots show.
        states: The whole worlds' states, [W, D]; None where there are none.
        stepped: Whether a world took a step, [W]; the others were reset.
        ended: Whether a world's episode ended in the step, [W].
        infos: By policy and slot, what the info of an agent that ended in the step says.
        missing_finals: Agents whose episode was cut off in the step and that showed no final observation: the last
            one that they were shown stands in its place.
        dropped_rewards: Rewards that no agent earned: it had ended, or the world's episode ended before it was born.
    """

    policies: Mapping[str, SlotRows]
    states: NDArray[Any] | None
    stepped: Flags
    ended: Flags
    infos: Mapping[str, Mapping[int, Mapping[str, Any]]]
    missing_finals: int
    dropped_rewards: int = 0


class VectorWorld(Protocol):
    """W worlds side by side; see the module for slots and ends.

    Attributes:
        num_worlds: W.
        clock: Time axis of experience: one row per world step, or per agent's decision.
        slots: By policy, its slots in all worlds, B.
        spaces: By policy, observation and action space of its agents.
        state_space: Space of a world's state, None where there is none.
        possible_agents: Ids of agents, at least one of each kind.
        columns: Names of the numbers that are read from agents' infos.
        seeds_episodes: Whether single worlds can be reset with a seed of their own; without it `restore` can only begin
            new episodes.
    """

    possible_agents: Sequence[str]
    num_worlds: int
    clock: WorldClock
    slots: Mapping[str, int]
    spaces: Mapping[str, Spaces]
    state_space: gymnasium.spaces.Box | None
    columns: Sequence[str]
    seeds_episodes: bool

    def reset(self) -> WorldRows:
        """Begins the first episode of every world with its own seed; nobody has a reward or an end."""
        ...

    def step(self, actions: Mapping[str, Tree]) -> WorldRows:
        """Steps all worlds; a world whose episode ended is reset instead (NEXT_STEP autoreset).

        Args:
            actions: By policy, leaves [B, ...] in the world's own terms; of slots that do not act they are ignored.

        Raises:
            EnvError: A world raised, or returned something outside its agents' spaces.
        """
        ...

    def owners(self, policy: str) -> Sequence[str]:
        """Returns the id of each slot's current or latest agent, [B]; "" before the first."""
        ...

    def places(self) -> list[EpisodePlace]:
        """Returns where each world is: its episode, that one's seed, and the steps since its reset."""
        ...

    def restore(
        self,
        places: Sequence[EpisodePlace],
        actions: Sequence[Mapping[str, Tree]],
        hashes: Sequence[str],
        max_replay_s: float,
    ) -> tuple[WorldRows, list[bool]]:
        """Returns to the given places by resetting with their seeds and replaying the joint actions.

        Args:
            places: Where each world was.
            actions: Per world the actions since its reset, by policy, leaves [length, K, ...].
            hashes: Per world the digest (`hashes`) of what it showed at that place.
            max_replay_s: Seconds this may take in all.

        Returns:
            What the worlds show, and per world whether it is exactly where it was. One that is not begins its next
            episode instead.

        Raises:
            EnvError: As in `step`.
        """
        ...

    def hashes(self) -> list[str]:
        """Returns a digest of each world's current state: slot owners, acting flags and observations."""
        ...

    def render(self) -> NDArray[np.uint8] | None:
        """Renders the first world as an RGB image [height, width, 3]; None without rendering."""
        ...

    def close(self) -> None:
        """Frees what the worlds hold."""
        ...


def place_of(worlds: VectorWorld, policy: str, slot: int) -> str:
    """Returns in words where the agent of a slot is: in which env or world, in which episode, and who it is."""
    world = slot // (worlds.slots[policy] // worlds.num_worlds)
    place, agent = worlds.places()[world], worlds.owners(policy)[slot]
    if agent == ONLY_AGENT:
        return f"env {world}, {place}"
    return f"world {world}, {place}, agent {agent!r} of policy {policy}"
