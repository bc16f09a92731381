"""Spaces and agents of each policy, as read from a single- or multi-agent env."""

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
    """Observation and action space, and number of agents, of each policy in a single- or multi-agent env.

    Attributes:
        spaces: Observation and action space of each policy's agents.
        views: By policy, properties of the multi-agent env (state space, number of agents, clock, game) that networks
            and losses depend on; empty for single-agent envs.
        slots: Maximum number of simultaneous agents of each policy in one env.
        agents: Ids of the possible agents of a multi-agent env; empty for single-agent envs.
    """

    spaces: Mapping[str, Spaces]
    views: Mapping[str, WorldView]
    slots: Mapping[str, int]
    agents: tuple[str, ...]


def policies_in_world(env: EnvConfig, mapping: PolicyMapping, slots: Mapping[str, int]) -> PoliciesInWorld:
    """Creates a single- or multi-agent env, and reads the spaces and agents of its policies from it."""
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
    """Creates a `PoliciesInWorld` for a single-agent env not yet created: one agent for the policy, and no spaces."""
    return PoliciesInWorld({}, {}, {policy: 1}, ())
