"""Entry point for creating envs from a config, single-agent or multi-agent (worlds)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rlrun.engine.settings.registry import load_internal
from rlrun.engine.worlds.world_kind import WorldKind

if TYPE_CHECKING:
    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.envs.episode_position import EpisodeSeeds
    from rlrun.engine.envs.spaces import Spaces
    from rlrun.engine.envs.tasks import Lessons
    from rlrun.engine.worlds.games.array_game import ArrayGame
    from rlrun.engine.worlds.mapping import PolicyMapping
    from rlrun.engine.worlds.vector_world import VectorWorld

KINDS = {
    "one agent": "rlrun.engine.worlds.one_agent_worlds:OneAgent",
    "many agents": "rlrun.engine.worlds.make_worlds:ManyAgents",
}
"""Import paths of the implementations for each kind of world."""


def kind_of(config: EnvConfig) -> WorldKind:
    """Returns the object that checks and creates the env of a config, either single-agent or multi-agent."""
    kind: WorldKind = load_internal(KINDS["many agents" if config.has_many_agents else "one agent"])()
    return kind


def check_world(config: EnvConfig) -> None:
    """Validates a world's config without creating the world: names, packages, wrappers, keyword arguments.

    Raises:
        UsageError: A name or a keyword argument does not exist; the message names the most similar one.
        EnvironmentUnusable: A package is not installed; the message names the pip command.
        UserCodeError: The module of a factory or wrapper raises while it is imported.
    """
    kind_of(config).check(config)


def game_of(config: EnvConfig) -> ArrayGame | None:
    """Creates the game for tree search that is equivalent to a multi-agent env; None if the env supports no search.

    Raises:
        UsageError: A name or a keyword argument does not exist.
        EnvironmentUnusable: A package is not installed, or the object is not a multi-agent env.
        EnvError: The world's own code raised an exception.
    """
    return kind_of(config).game(config)


def make_vector_world(
    config: EnvConfig,
    num_worlds: int,
    seeds: EpisodeSeeds,
    mapping: PolicyMapping,
    slots: Mapping[str, int],
    first_episodes: Sequence[int] | None = None,
    lessons: Lessons | None = None,
    *,
    with_states: bool = False,
) -> VectorWorld:
    """Creates W vectorized multi-agent envs (worlds); a single-agent env becomes a world with one agent.

    Args:
        config: Config of the env or world.
        num_worlds: Number of worlds, W.
        seeds: Seeds of episodes, determined by the worker's index, the world's index and the episode's number.
        mapping: Mapping from agents to policies.
        slots: Number of slots (simultaneous agents) per world, by policy; by default the number of possible agents.
        first_episodes: Index of the episode with which each world starts; 0 for all unless given.
        lessons: Keyword arguments that a curriculum sets for the worlds; None without a curriculum.
        with_states: Whether the worlds' global states are read after each step, for policies that learn from them. Some
            worlds have no state at the end of an episode.

    Raises:
        UsageError: A name or a keyword argument does not exist, or an agent has no policy.
        EnvironmentUnusable: A package is not installed, or the env has no supported form.
        EnvError: The world's own code raised an exception.
    """
    return kind_of(config).make(
        config, num_worlds, seeds, mapping, slots, first_episodes, lessons, with_states=with_states
    )


def spaces_of_policies(config: EnvConfig, mapping: PolicyMapping) -> dict[str, Spaces]:
    """Returns each policy's observation and action space; creates the env or world once to read them.

    Raises:
        UsageError: A name or a keyword argument does not exist, or an agent has no policy.
        EnvironmentUnusable: A package is not installed, or the env has no supported form.
        EnvError: The world's own code raised an exception.
    """
    return agents_and_spaces(config, mapping)[1]


def agents_and_spaces(config: EnvConfig, mapping: PolicyMapping) -> tuple[tuple[str, ...], dict[str, Spaces]]:
    """Returns the ids of all possible agents, and each policy's observation and action space.

    The env or world is created once to read them.

    Raises:
        UsageError: A name or a keyword argument does not exist, or an agent has no policy.
        EnvironmentUnusable: A package is not installed, or the env has no supported form.
        EnvError: The world's own code raised an exception.
    """
    return kind_of(config).agents_and_spaces(config, mapping)


def kinds_of_agents(config: EnvConfig) -> PolicyMapping:
    """Returns a default mapping from agents to policies: agents with equal spaces share a policy.

    The env is created once to read its agents and spaces.

    A policy is named after its group of agents, or after the prefix of its first agent's id: `hunter` for `hunter_0`.
    The policy of a single-agent env is called `agent`.

    Raises:
        UsageError: A name or a keyword argument does not exist.
        EnvironmentUnusable: A package is not installed, or the env has no supported form.
        EnvError: The world's own code raised an exception.
    """
    return kind_of(config).agents(config)
