"""Spaces and agents of each policy, as read from an env or a multi-agent world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.worlds.make import game_of, make_vector_world
from rlrun.engine.worlds.world_view import WorldView

if TYPE_CHECKING:
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.worlds.mapping import PolicyMapping


@dataclass(frozen=True)
class PoliciesInWorld:
    """Observation and action spaces, and numbers of agents, of each policy in an env or a multi-agent world.

    Attributes:
        spaces: Observation and action space of each policy's agents.
        views: Properties of the world by policy (state space, number of agents, clock, game); empty for single-agent
            envs.
        slots: Agent slots of each policy in one world.
        agents: Possible agents of a multi-agent world; empty for single-agent envs.
    """

    spaces: Mapping[str, Spaces]
    views: Mapping[str, WorldView]
    slots: Mapping[str, int]
    agents: tuple[str, ...]


def policies_in_world(env: EnvConfig, mapping: PolicyMapping, slots: Mapping[str, int]) -> PoliciesInWorld:
    """Creates one env or multi-agent world, and reads the spaces and agents of its policies."""
    world = make_vector_world(env, env.fixed_num_envs or 1, EpisodeSeeds(0, 0), mapping, slots)
    try:
        game = game_of(env)
        views = {
            policy: WorldView(world.state_space, number, world.clock, game)
            for policy, number in world.slots.items()
            if env.has_many_agents
        }
        agents = tuple(world.possible_agents) if views else ()
        return PoliciesInWorld(dict(world.spaces), views, dict(world.slots), agents)
    finally:
        world.close()


def placeholder(policy: str) -> PoliciesInWorld:
    """Stand-in for a single-agent env that has not been created: one agent, and no spaces yet."""
    return PoliciesInWorld({}, {}, {policy: 1}, ())
