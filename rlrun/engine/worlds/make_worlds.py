"""Creation of multi-agent worlds from an env config: one by one, in batches (array worlds), or run by clients."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
from typing_extensions import override

from rlrun.engine.data.action_masks import check_action_mask
from rlrun.engine.envs.env_config import EnvConfig, WrapperConfig, kwargs_of_tasks
from rlrun.engine.envs.env_ids import factory_of
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.factory_call import check_call
from rlrun.engine.envs.make import check_num_envs
from rlrun.engine.envs.spaces import Spaces, check_spaces
from rlrun.engine.envs.vector_env import close_or_warn, env_error, require_separate
from rlrun.engine.messages.errors import EnvironmentUnusable, RlrunError, UsageError
from rlrun.engine.settings.registry import load_internal, load_object
from rlrun.engine.worlds.mapping import PolicyMapping
from rlrun.engine.worlds.world import World
from rlrun.engine.worlds.world_checks import other_spaces
from rlrun.engine.worlds.world_kind import WorldKind

if TYPE_CHECKING:
    from rlrun.engine.envs.tasks import Lessons
    from rlrun.engine.worlds.array_worlds import ArrayWorld
    from rlrun.engine.worlds.games.array_game import ArrayGame
    from rlrun.engine.worlds.games.game_tree import GameTree
    from rlrun.engine.worlds.vector_world import VectorWorld

PARTS = {
    "array worlds": "rlrun.engine.worlds.array_worlds:array_vector_world",
    "check of clients": "rlrun.engine.external.agents:agents_of",
    "check of tasks": "rlrun.engine.envs.tasks:check_functions",
    "client world": "rlrun.engine.worlds.client_worlds:client_world",
    "client worlds": "rlrun.engine.worlds.client_worlds:client_vector_world",
    "loop worlds": "rlrun.engine.worlds.loop_worlds:LoopWorlds",
    "PettingZoo env": "rlrun.engine.worlds.pettingzoo_worlds:as_pettingzoo_world",
    "PettingZoo module": "rlrun.engine.worlds.pettingzoo_worlds:pettingzoo_factory",
    "tasks": "rlrun.engine.worlds.task_world:task_world",
}
"""Import paths of functions that create only some forms of worlds."""


class ManyAgents(WorldKind):
    """Implementation of `WorldKind` that checks and creates multi-agent envs."""

    @override
    def check(self, config: EnvConfig) -> None:
        if config.external is not None:
            load_internal(PARTS["check of clients"])(config.external)
            return
        if config.varies:
            load_internal(PARTS["check of tasks"])(config.tasks, config.curriculum)
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
                f"env {config.id} steps many worlds at once, so it does not support wrappers, clock, "
                "max_episode_steps, tasks, curriculum or columns; leave them out"
            )

    @override
    def make(
        self,
        config: EnvConfig,
        num_worlds: int,
        seeds: EpisodeSeeds,
        mapping: PolicyMapping,
        slots: Mapping[str, int],
        first_episodes: Sequence[int] | None,
        lessons: Lessons | None,
        *,
        with_states: bool,
    ) -> VectorWorld:
        made: VectorWorld
        if config.external is not None:
            world = make_world(config)
            spaces, slots = _spaces_by_policy(config, world, mapping), {**_default_slots(world, mapping), **slots}
            make_client_worlds = load_internal(PARTS["client worlds"])
            made = make_client_worlds(config.external, num_worlds, seeds, mapping, spaces, slots, first_episodes)
            return made
        if steps_all_at_once(config):
            make_array_worlds = load_internal(PARTS["array worlds"])
            world_of_arrays = _made_array_world(config, num_worlds)
            made = make_array_worlds(config.id, world_of_arrays, seeds, mapping, slots, first_episodes)
            return made
        check_num_envs(config, num_worlds)
        worlds = [make_world(config, lessons=lessons, number=number) for number in range(num_worlds)]
        require_separate(config.id, [world.unwrapped for world in worlds])
        made = load_internal(PARTS["loop worlds"])(
            config.id,
            worlds,
            seeds,
            mapping,
            _spaces_by_policy(config, worlds[0], mapping),
            {**_default_slots(worlds[0], mapping), **slots},
            config.max_episode_steps,
            first_episodes,
            config.columns,
            with_states=with_states,
        )
        return made

    @override
    def agents_and_spaces(self, config: EnvConfig, mapping: PolicyMapping) -> tuple[tuple[str, ...], dict[str, Spaces]]:
        world = self.make(config, 1, EpisodeSeeds(0, 0), mapping, {}, None, None, with_states=False)
        try:
            return tuple(world.possible_agents), dict(world.spaces)
        finally:
            world.close()

    @override
    def game(self, config: EnvConfig) -> ArrayGame | None:
        if steps_all_at_once(config):
            return None
        world = make_world(config)
        try:
            return world.array_game()
        finally:
            close_or_warn(world.close, config.id, "before any episode")

    @override
    def agents(self, config: EnvConfig) -> PolicyMapping:
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


def make_world(config: EnvConfig, *, lessons: Lessons | None = None, number: int = 0) -> World:
    """Creates a single multi-agent env (world) with its wrappers.

    Args:
        config: Config of the world.
        lessons: Keyword arguments that a curriculum sets for the vectorized worlds; None without a curriculum.
        number: Index of this world among the vectorized worlds.

    Raises:
        UsageError: A name or a keyword argument does not exist.
        EnvironmentUnusable: A package is not installed, or the object is not a multi-agent env.
        EnvError: The world's own code raised an exception.
    """
    if config.external is not None:
        of_clients: World = load_internal(PARTS["client world"])(config.external)
        return of_clients
    ManyAgents().check(config)
    if not config.varies:
        return _of_one_task(config, config.kwargs)
    of_tasks: World = load_internal(PARTS["tasks"])(
        config, lambda more: _of_one_task(config, {**config.kwargs, **more}), lessons, number
    )
    return of_tasks


def _of_one_task(config: EnvConfig, kwargs: dict[str, Any]) -> World:
    """Creates the world of one task, with the task's keyword arguments."""
    factory = _factory(config)
    check_call(factory, (), kwargs, f"env {config.id}")
    with Watched(f"env {config.id}: making it"):
        try:
            world = as_world(config.id, factory(**kwargs))
        except RlrunError:  # its message is complete, for example about an env id among the keyword arguments
            raise
        except (Exception, SystemExit) as error:
            raise env_error(config.id, "its factory", "before any episode", error, starts=True) from error
        for wrapper in config.wrappers:
            world = _wrapped(world, wrapper, config.id)
    if config.clock is not None:
        world.clock = config.clock
    return world


def make_game_tree(config: EnvConfig) -> tuple[GameTree, Sequence[str]]:
    """Returns the root of a multi-agent env's game tree, and the agents that are the tree's players.

    Raises:
        UsageError: The env has no game tree.
    """
    tree: GameTree | None = None
    agents: tuple[str, ...] = ()
    if config.has_many_agents and config.external is None and not steps_all_at_once(config):
        world = make_world(config)
        tree, agents = world.game_tree(), tuple(world.possible_agents)
        close_or_warn(world.close, config.id, "before any episode")
    if tree is None:
        raise UsageError(
            f"env {config.id}: exploitability needs a game tree: use a world with game_tree() and without "
            "wrappers, such as rlrun.toys:Kuhn"
        )
    return tree, agents


def steps_all_at_once(config: EnvConfig) -> bool:
    """Whether a config's factory creates a batched `ArrayWorld` rather than single worlds."""
    return config.has_many_agents and config.external is None and takes_num_worlds(_factory(config))


def takes_num_worlds(factory: Callable[..., Any]) -> bool:
    """Whether a factory's first parameter is `num_worlds`, so that it creates an `ArrayWorld` (a batch of worlds)."""
    try:
        return next(iter(inspect.signature(factory).parameters), None) == "num_worlds"
    except (TypeError, ValueError):  # callables in C have no signature
        return False


def _made_array_world(config: EnvConfig, num_worlds: int) -> ArrayWorld:
    ManyAgents().check(config)
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
                f"env {config.id}: policy {policy} has no agent: map one of {', '.join(world.possible_agents)} to it"
            )
    return {policy: found[policy] for policy in mapping.policies}


def _spaces_of(config: EnvConfig, world: World, agent: str) -> Spaces:
    if not isinstance(agent, str):
        raise EnvironmentUnusable(f"env {config.id}: an agent's id must be a string, not {agent!r}")
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
        factory: Callable[..., Any] = load_internal(PARTS["PettingZoo module"])(config.pettingzoo)
        return factory
    return factory_of(config, "world factory")


def as_world(world_id: str, made: Any) -> World:
    """Converts a factory's result to a `World`; a PettingZoo env is wrapped in an adapter."""
    if isinstance(made, World):
        return made
    if any(base.__module__.partition(".")[0] == "pettingzoo" for base in type(made).__mro__):
        adapted: World | None = load_internal(PARTS["PettingZoo env"])(made)
        if adapted is not None:
            return adapted
    raise EnvironmentUnusable(
        f"env {world_id}: its factory must return a World, or a ParallelEnv or AECEnv of PettingZoo, "
        f"{_not_a_world(world_id, made)}"
    )


def _not_a_world(world_id: str, made: Any) -> str:
    if made is None:
        return "but it returned None: is a return statement missing?"
    if isinstance(made, gymnasium.Env):
        return f"but it returned a single-agent env of type {type(made).__name__}: write env: {world_id}"
    return f"but it returned an object of type {type(made).__name__}"


def _wrapped(world: World, wrapper: WrapperConfig, world_id: str) -> World:
    try:
        wrapped = _wrapper_class(wrapper)(world, **wrapper.kwargs)
    except (Exception, SystemExit) as error:
        raise env_error(
            world_id, f"the constructor of wrapper {wrapper.id}", "before any episode", error, starts=True
        ) from error
    if not isinstance(wrapped, World):
        raise EnvironmentUnusable(
            f"wrapper {wrapper.id} must return a World, but it returned an object of type {type(wrapped).__name__}"
        )
    return wrapped


def _wrapper_class(wrapper: WrapperConfig) -> Callable[..., Any]:
    if ":" not in wrapper.id:
        raise UsageError(f"wrapper {wrapper.id}: write a world wrapper as package.module:Class")
    return load_object(wrapper.id, "world wrapper")  # type: ignore[no-any-return]
