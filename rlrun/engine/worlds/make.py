"""Factory functions that create worlds, multi- or single-agent, from an env config."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium

from rlrun.engine.data.action_masks import check_action_mask
from rlrun.engine.envs.env_config import EnvConfig, ExternalConfig, WrapperConfig, kwargs_of_tasks
from rlrun.engine.envs.env_ids import factory_of
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import check_env, check_num_envs, make_vector_env, require_separate, spaces_of
from rlrun.engine.envs.single_env import check_call
from rlrun.engine.envs.spaces import Spaces, check_spaces
from rlrun.engine.envs.tasks import EpisodeTasks, Lessons, check_functions
from rlrun.engine.envs.vector_env import close_or_warn, env_error
from rlrun.engine.external.agents import agents_of
from rlrun.engine.messages.errors import EnvironmentUnusable, RlrunError, UsageError
from rlrun.engine.settings.registry import load_object
from rlrun.engine.worlds.array_worlds import ArrayVectorWorld, ArrayWorld
from rlrun.engine.worlds.games.array_game import ArrayGame
from rlrun.engine.worlds.games.game_tree import GameTree
from rlrun.engine.worlds.loop_worlds import LoopWorlds
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.one_agent_worlds import OneAgentWorlds
from rlrun.engine.worlds.pettingzoo_worlds import ParallelWorld, TurnBasedWorld, pettingzoo_factory
from rlrun.engine.worlds.task_world import TaskWorld
from rlrun.engine.worlds.vector_world import ONLY_AGENT, VectorWorld
from rlrun.engine.worlds.world import World
from rlrun.engine.worlds.world_checks import other_spaces

__all__ = [
    "check_world",
    "game_of",
    "kinds_of_agents",
    "make_vector_world",
    "make_world",
    "spaces_of_policies",
    "steps_all_at_once",
    "takes_num_worlds",
]


NO_LOGGED_ACTIONS = (
    "the actions here are the policy's, which learns from them alone: ask for each by get_action, or set "
    "env.external.logged_actions"
)
"""Reason of a refused `log_action` of a client."""


def check_world(config: EnvConfig) -> None:
    """Validates a world's config without creating the world: names, packages, wrappers, keyword arguments.

    Raises:
        UsageError: A name or a keyword argument does not exist; the message names the nearest.
        EnvironmentUnusable: A package is not installed; the message names the pip command.
        UserCodeError: The module of a factory or wrapper raises while it is imported.
    """
    if not config.has_many_agents:
        check_env(config)
        return
    if config.external is not None:
        agents_of(config.external)
        return
    check_functions(config.tasks, config.curriculum)
    for wrapper in config.wrappers:
        check_call(_wrapper_class(wrapper), (None,), wrapper.kwargs, f"wrapper {wrapper.id}")
    factory = _factory(config)
    if not takes_num_worlds(factory):
        for kwargs in kwargs_of_tasks(config.kwargs, config.tasks):
            check_call(factory, (), kwargs, f"env {config.id}")
        return
    check_call(factory, (1,), config.kwargs, f"env {config.id}")
    if config.wrappers or config.clock or config.max_episode_steps or config.varies or config.columns:
        raise UsageError(
            f"env {config.id} makes many worlds at once: wrappers, clock, max_episode_steps, tasks, curriculum and "
            "columns are for worlds that are stepped one by one"
        )


def make_world(config: EnvConfig, *, lessons: Lessons | None = None, number: int = 0) -> World:
    """Creates one multi-agent world with its wrappers.

    Args:
        config: Config of the world.
        lessons: Curriculum arguments of the vectorized worlds; None without a curriculum.
        number: Index of the world among the vectorized worlds.

    Raises:
        UsageError: A name or a keyword argument does not exist.
        EnvironmentUnusable: A package is not installed, or the object is no multi-agent world.
        EnvError: The world's own code raised.
    """
    if config.external is not None:
        from rlrun.engine.worlds.client_worlds import ClientWorld

        return ClientWorld(agents_of(config.external))
    check_world(config)
    if not config.varies:
        return _of_one_task(config, config.kwargs)
    return TaskWorld(
        config.id,
        lambda more: _of_one_task(config, {**config.kwargs, **more}),
        EpisodeTasks(config.tasks, lessons, number),
        shows_task=config.task_in_observation,
    )


def _of_one_task(config: EnvConfig, kwargs: dict[str, Any]) -> World:
    """Creates the world of one task, with the task's keyword arguments."""
    factory = _factory(config)
    check_call(factory, (), kwargs, f"env {config.id}")
    with Watched(f"env {config.id}: making it"):
        try:
            world = as_world(config.id, factory(**kwargs))
        except RlrunError:  # whose message is complete, as of an env's id among the keyword arguments
            raise
        except (Exception, SystemExit) as error:
            raise env_error(config.id, "its factory", "before any episode", error, starts=True) from error
        for wrapper in config.wrappers:
            world = _wrapped(world, wrapper, config.id)
    if config.clock is not None:
        world.clock = config.clock
    return world


def game_of(config: EnvConfig) -> ArrayGame | None:
    """Creates the game for tree search that is equivalent to a world, None if the world supports no search.

    Raises:
        UsageError: A name or a keyword argument does not exist.
        EnvironmentUnusable: A package is not installed, or the object is no multi-agent world.
        EnvError: The world's own code raised.
    """
    if not config.has_many_agents or steps_all_at_once(config):
        return None
    world = make_world(config)
    try:
        return world.array_game()
    finally:
        close_or_warn(world.close, config.id, "before any episode")


def make_game_tree(config: EnvConfig) -> tuple[GameTree, Sequence[str]]:
    """Creates the game of a world as a tree, and returns it with the agents that are its players.

    Raises:
        UsageError: The world has no game tree.
    """
    tree: GameTree | None = None
    agents: tuple[str, ...] = ()
    if config.has_many_agents and config.external is None and not steps_all_at_once(config):
        world = make_world(config)
        tree, agents = world.game_tree(), tuple(world.possible_agents)
        close_or_warn(world.close, config.id, "before any episode")
    if tree is None:
        raise UsageError(
            f"env {config.id}: no exploitability, as it has no game tree: a world with game_tree(), without wrappers, "
            "such as rlrun.toys:Kuhn"
        )
    return tree, agents


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
    """Creates a vectorized env of W worlds; single-agent envs become worlds with one agent.

    Args:
        config: Config of the env or world.
        num_worlds: Number of worlds, W.
        seeds: Episode seeds, a function of env slot and episode number; holds the worker index.
        mapping: Mapping from agents to policies.
        slots: Slots per world by policy. By default, the number of possible agents that the policy has at a time.
        first_episodes: Number of each world's first episode; 0 for all unless given.
        lessons: Curriculum arguments of the worlds; None without a curriculum.
        with_states: Whether the worlds' global states are read after each step, for policies that learn from them.
            Some worlds have none at the end of an episode.

    Raises:
        UsageError: A name or a keyword argument does not exist, or an agent has no policy.
        EnvironmentUnusable: A package is not installed, or the env has no supported form.
        EnvError: The world's own code raised.
    """
    if not config.has_many_agents:
        env = make_vector_env(config, num_worlds, seeds, first_episodes=first_episodes, lessons=lessons)
        return OneAgentWorlds(env, mapping.policy_of(ONLY_AGENT, 0))
    if config.external is not None:
        return _client_worlds(config, config.external, num_worlds, seeds, mapping, slots, first_episodes)
    if steps_all_at_once(config):
        return _array_world(config, num_worlds, seeds, mapping, slots, first_episodes)
    check_num_envs(config, num_worlds)
    worlds = [make_world(config, lessons=lessons, number=number) for number in range(num_worlds)]
    require_separate(config.id, [world.unwrapped for world in worlds])
    spaces = _spaces_by_policy(config, worlds[0], mapping)
    return LoopWorlds(
        config.id,
        worlds,
        seeds,
        mapping,
        spaces,
        {**_default_slots(worlds[0], mapping), **slots},
        config.max_episode_steps,
        first_episodes,
        config.columns,
        with_states=with_states,
    )


def spaces_of_policies(config: EnvConfig, mapping: PolicyMapping) -> dict[str, Spaces]:
    """Returns each policy's observation and action space; creates one env or world.

    Raises:
        UsageError: A name or a keyword argument does not exist, or an agent has no policy.
        EnvironmentUnusable: A package is not installed, or the env has no supported form.
        EnvError: The world's own code raised.
    """
    if not config.has_many_agents:
        return {mapping.policy_of(ONLY_AGENT, 0): spaces_of(config)}
    world = make_vector_world(config, 1, EpisodeSeeds(0, 0), mapping, {})
    try:
        return dict(world.spaces)
    finally:
        world.close()


def steps_all_at_once(config: EnvConfig) -> bool:
    """Whether a config's factory makes an `ArrayWorld`."""
    return config.has_many_agents and config.external is None and takes_num_worlds(_factory(config))


def kinds_of_agents(config: EnvConfig) -> PolicyMapping:
    """Returns a default policy mapping that shares a policy among agents with equal spaces; creates one world.

    A policy is named after a group, or the prefix of its first agent's id: `hunter` for `hunter_0`. The policy of a
    single-agent env is called `agent`.

    Raises:
        UsageError: A name or a keyword argument does not exist.
        EnvironmentUnusable: A package is not installed, or the env has no supported form.
        EnvError: The world's own code raised.
    """
    if not config.has_many_agents:
        return PolicyMapping(("agent",))
    if steps_all_at_once(config):
        groups = tuple(_made_array_world(config, 1).groups)
        return PolicyMapping(groups, {f"{group}_*": group for group in groups})
    world = make_world(config)
    kinds: dict[str, Spaces] = {}
    patterns: dict[str, str] = {}
    for agent in world.possible_agents:
        spaces, prefix = _spaces_of(config, world, agent), agent.rstrip("0123456789").rstrip("_-") or agent
        kind = next((kind for kind, own in kinds.items() if own == spaces), agent if prefix in kinds else prefix)
        kinds[kind] = spaces
        patterns |= {agent: kind}
    patterns |= {f"{kind}*": kind for kind in kinds}
    close_or_warn(world.close, config.id, "before any episode")
    return PolicyMapping([*kinds], patterns)


def takes_num_worlds(factory: Callable[..., Any]) -> bool:
    """Whether a factory creates an `ArrayWorld`, by its first parameter `num_worlds`."""
    try:
        return next(iter(inspect.signature(factory).parameters), None) == "num_worlds"
    except (TypeError, ValueError):  # callables of C have no signature
        return False


def _array_world(
    config: EnvConfig,
    num_worlds: int,
    seeds: EpisodeSeeds,
    mapping: PolicyMapping,
    slots: Mapping[str, int],
    first_episodes: Sequence[int] | None,
) -> VectorWorld:
    """Creates the vector world of an array world; each group has one policy, and one slot per agent."""
    world = _made_array_world(config, num_worlds)
    policies = {}
    for group, (agents, spaces) in world.groups.items():
        check_spaces(f"{config.id}, group '{group}'", *spaces)
        found = {mapping.policy_of(f"{group}_{agent}", 0) for agent in range(agents)}
        if len(found) > 1:
            raise UsageError(
                f"env {config.id}: the agents of the group {group} are one policy's, not {', '.join(sorted(found))}'s"
            )
        policies[group] = found.pop()
        if slots.get(policies[group], agents) != agents:
            raise UsageError(f"policies.{policies[group]}.slots must be {agents}, the agents of the group {group}")
    return ArrayVectorWorld(world, config.id, policies, seeds, first_episodes)


def _client_worlds(
    config: EnvConfig,
    external: ExternalConfig,
    num_worlds: int,
    seeds: EpisodeSeeds,
    mapping: PolicyMapping,
    slots: Mapping[str, int],
    first_episodes: Sequence[int] | None,
) -> VectorWorld:
    """Creates the worlds of clients' episodes, with a server that starts at the first step."""
    # Only here: no other env needs what a server imports, such as asyncio.
    from rlrun.engine.external.client_episodes import ClientEpisodes
    from rlrun.engine.external.server import EpisodeServer
    from rlrun.engine.worlds.client_worlds import ClientWorlds

    world = make_world(config)
    agents = agents_of(external)
    episodes = ClientEpisodes(
        agents,
        num_worlds,
        client_timeout_s=external.client_timeout_s,
        gather_s=external.gather_ms / 1_000,
        no_logged_actions="" if external.logged_actions in ("mask", "learn") else NO_LOGGED_ACTIONS,
    )
    return ClientWorlds(
        EpisodeServer(episodes, external, seeds.worker_index),
        agents,
        num_worlds,
        seeds,
        mapping,
        _spaces_by_policy(config, world, mapping),
        {**_default_slots(world, mapping), **slots},
        first_episodes,
    )


def _made_array_world(config: EnvConfig, num_worlds: int) -> ArrayWorld:
    check_world(config)
    try:
        with Watched(f"env {config.id}: making it"):
            return _factory(config)(num_worlds, **config.kwargs)  # type: ignore[no-any-return]
    except (Exception, SystemExit) as error:
        raise env_error(config.id, "its factory", "before any episode", error, starts=True) from error


def _spaces_by_policy(config: EnvConfig, world: World, mapping: PolicyMapping) -> dict[str, tuple[str, Spaces]]:
    """Returns, by policy, the first possible agent and the common spaces of the policy's agents."""
    found: dict[str, tuple[str, Spaces]] = {}
    by_agent = {agent: _spaces_of(config, world, agent) for agent in world.possible_agents}
    for seating in mapping.seatings(world.possible_agents):
        for policy, agents in seating.items():
            for agent in agents:
                first, spaces = found.setdefault(policy, (agent, by_agent[agent]))
                if by_agent[agent] != spaces:
                    raise other_spaces(config.id, policy, {first: spaces, agent: by_agent[agent]})
    for policy in mapping.policies:
        if policy not in found:
            raise UsageError(
                f"env {config.id}: no agent is policy {policy}'s: map one of {', '.join(world.possible_agents)} to it"
            )
    return {policy: found[policy] for policy in mapping.policies}


def _spaces_of(config: EnvConfig, world: World, agent: str) -> Spaces:
    if not isinstance(agent, str):
        raise EnvironmentUnusable(f"env {config.id}: an agent's id is a text, not {agent!r}")
    try:
        spaces = Spaces(*world.spaces(agent))
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise env_error(config.id, "spaces()", f"agent '{agent}'", error) from error
    check_spaces(f"{config.id}, agent '{agent}'", *spaces)
    check_action_mask(*spaces)
    return spaces


def _default_slots(world: World, mapping: PolicyMapping) -> dict[str, int]:
    seatings = mapping.seatings(world.possible_agents)
    return {policy: max(len(seating[policy]) for seating in seatings) for policy in mapping.policies}


def _factory(config: EnvConfig) -> Callable[..., Any]:
    if config.pettingzoo is not None:
        return pettingzoo_factory(config.pettingzoo)
    return factory_of(config, "world factory")


def as_world(world_id: str, made: Any) -> World:
    """Converts a factory's result to a world: PettingZoo envs are wrapped in an adapter."""
    if isinstance(made, World):
        return made
    if any(base.__module__.partition(".")[0] == "pettingzoo" for base in type(made).__mro__):
        pettingzoo = importlib.import_module("pettingzoo")
        if isinstance(made, pettingzoo.ParallelEnv):
            return ParallelWorld(made)
        if isinstance(made, pettingzoo.AECEnv):
            return TurnBasedWorld(made)
    raise EnvironmentUnusable(
        f"env {world_id}: its factory must return a World, or a ParallelEnv or AECEnv of PettingZoo, "
        f"{_not_a_world(world_id, made)}"
    )


def _not_a_world(world_id: str, made: Any) -> str:
    if made is None:
        return "but it returned None: is a return statement missing?"
    if isinstance(made, gymnasium.Env):
        return f"but it returned an env of one agent, a {type(made).__name__}: write env: {world_id}"
    return f"but it returned a {type(made).__name__}"


def _wrapped(world: World, wrapper: WrapperConfig, world_id: str) -> World:
    try:
        wrapped = _wrapper_class(wrapper)(world, **wrapper.kwargs)
    except (Exception, SystemExit) as error:
        raise env_error(
            world_id, f"the constructor of wrapper {wrapper.id}", "before any episode", error, starts=True
        ) from error
    if not isinstance(wrapped, World):
        raise EnvironmentUnusable(
            f"wrapper {wrapper.id} must return a World, but it returned a {type(wrapped).__name__}"
        )
    return wrapped


def _wrapper_class(wrapper: WrapperConfig) -> Callable[..., Any]:
    if ":" not in wrapper.id:
        raise UsageError(f"wrapper {wrapper.id}: a wrapper of worlds is written package.module:Class")
    return load_object(wrapper.id, "world wrapper")  # type: ignore[no-any-return]
