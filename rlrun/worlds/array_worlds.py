"""Worlds that step all agents of W worlds at once with arrays, and the vector world that is made of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.envs.spaces import Spaces
from rlrun.worlds.world import WorldClock

Tree = Any
Flags = NDArray[np.bool_]


class ArrayGroup(NamedTuple):
    """Agents of one kind.

    Attributes:
        num_agents: How many may live at once in each world, K.
        spaces: Observation and action space of each.
    """

    num_agents: int
    spaces: Spaces


@dataclass
class GroupRows:
    """What the agents of a group are shown and given; the next step may change the arrays.

    Attributes:
        observations: Leaves [W, K, ...]; garbage of the right type where nobody acts or has just ended.
        rewards: [W, K] float64; 0 where nobody is.
        terminateds: Whether an agent's episode ended for good in the step, [W, K].
        truncateds: Whether it was cut off there, [W, K].
        acts: Whether an agent is there that acts next, [W, K]; never one that has just ended.
    """

    observations: Tree
    rewards: NDArray[np.float64]
    terminateds: Flags
    truncateds: Flags
    acts: Flags


class ArrayStep(NamedTuple):
    """What W worlds show after a step.

    Attributes:
        groups: By group, what its agents show.
        ended: Whether a world's episode is over, [W]; every agent that was left in it is marked as ended too.
    """

    groups: Mapping[str, GroupRows]
    ended: Flags


class ArrayWorld(Protocol):
    """W worlds whose agents live in arrays [W, K]: an agent keeps its place k from its first observation to its last.

    A place whose agent ended in a step may hold another agent from the step behind that on. A world whose episode is
    over is stepped with the others until it is reset; what it shows until then is ignored.

    Attributes:
        num_worlds: W.
        clock: What a row of experience is.
        groups: By name, kinds of agents.
        state_space: Space of a world's state, None where there is none.
    """

    num_worlds: int
    clock: WorldClock
    groups: Mapping[str, ArrayGroup]
    state_space: gymnasium.spaces.Box | None

    def reset(self, worlds: Sequence[int], seeds: Sequence[int]) -> ArrayStep:
        """Begins an episode in some worlds, the same one for the same seed, whatever they were doing.

        Returns:
            What all worlds show. Those begun have rewards of 0 and no ends, the others what they showed before.
        """
        ...

    def step(self, actions: Mapping[str, Tree]) -> ArrayStep:
        """Takes a step in all worlds.

        Args:
            actions: By group, leaves [W, K, ...]; ignored where nobody acts.
        """
        ...

    def state(self) -> NDArray[Any]:
        """Returns the states of all worlds, [W, D], if there is a `state_space`."""
        ...

    def close(self) -> None:
        """Frees what the worlds hold."""
        ...
