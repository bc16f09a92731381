"""Factory functions from an env config: vector env, single env, spaces, choice of backend, and the list of envs."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from rlrun.engine.data.action_masks import has_action_mask
from rlrun.engine.envs.action_masks import MaskedVectorEnv
from rlrun.engine.envs.cartpole_vector_env import SeededCartPole
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_ids import (
    check_installed,
    factory_of,
    find_spec,
    is_factory,
    is_usable_kind,
    makes_vector_env,
    pip_command,
    register_atari,
)
from rlrun.engine.envs.envpool_vector_env import check_envpool, envpool_spaces, make_envpool
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.gymnasium_vector_env import check_gymnasium, make_gymnasium
from rlrun.engine.envs.loop_vector_env import LoopVectorEnv
from rlrun.engine.envs.single_env import check_single_env, make_single_env
from rlrun.engine.envs.spaces import Spaces
from rlrun.engine.envs.tasks import Lessons
from rlrun.engine.envs.vector_env import VectorEnv, close_or_warn
from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError

__all__ = [
    "EnvListing",
    "backend_of",
    "check_env",
    "check_num_envs",
    "check_same_spaces",
    "env_names",
    "make_env",
    "make_vector_env",
    "require_separate",
    "spaces_of",
]


_CARTPOLE = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
_CARTPOLE_KWARGS = frozenset({"sutton_barto_reward"})


@dataclass(frozen=True)
class EnvListing:
    """Entry of the list of available envs.

    Attributes:
        id: Gymnasium id of the env.
        family: Package that the env belongs to, such as "classic_control", "mujoco" or "atari".
        backend: Backend chosen under `backend: auto`.
        install: Pip command for the env's additional dependencies, "" for none.
        usable: Whether the dependencies are installed.
    """

    id: str
    family: str
    backend: str
    install: str
    usable: bool


FAMILIES = ("classic_control", "box2d", "mujoco", "toy_text")
"""Families of envs that come first in lists; Atari's hundreds of games come last."""


def backend_of(config: EnvConfig) -> str:
    """Returns the name of the backend that steps an env: cartpole, atari, gymnasium, envpool or loop.

    Under ``backend: auto`` an env's native vector form is used if its autoreset mode is NEXT_STEP. Wrappers, reset
    options, columns or arguments of the single env require the loop backend. A factory of a `gymnasium.vector` env has
    that form alone.

    Raises:
        UsageError: No env has the id, or a form is requested that the env does not have.
        EnvironmentUnusable: The id belongs to a package that is not installed.
        UserCodeError: The module of a factory raises while it is imported.
    """
    if config.backend == "envpool":
        return config.backend
    asks_single = config.wrappers or config.reset_options or config.columns or config.varies
    if is_factory(config.id) and makes_vector_env(factory_of(config)):
        if asks_single or config.max_episode_steps is not None or config.backend == "loop":
            raise UsageError(
                f"env {config.id} makes a gymnasium.vector env: wrappers, reset_options, columns, tasks, curriculum, "
                "max_episode_steps and backend loop are for single environments"
            )
        return "gymnasium"
    if config.backend == "loop":
        return config.backend
    spec = None if is_factory(config.id) else find_spec(config.id)
    is_plain = spec is not None and not (asks_single or spec.additional_wrappers)
    vector = _vector_form(spec, config) if is_plain else ""
    if config.backend == "vector" and not vector:
        raise UsageError(
            f"env {config.id} has no vector form of its own with these arguments: use backend loop, or auto"
        )
    return vector or "loop"


def check_env(config: EnvConfig) -> None:
    """Validates an env config without creating the env: id, packages, preset, wrappers, keyword arguments.

    Raises:
        UsageError: A name or a keyword argument does not exist; the message names the nearest.
        EnvironmentUnusable: A package is not installed; the message names the pip command.
        UserCodeError: The module of a factory or wrapper raises while it is imported.
    """
    backend = backend_of(config)
    if config.preset == "atari" and backend != "atari":
        raise UsageError(f"preset atari is for ALE's games in their vector form, not {config.id}")
    if backend == "envpool":
        check_envpool(config)
    elif backend == "atari":
        _atari(config)
    elif backend == "gymnasium":
        check_gymnasium(config)
    else:
        check_single_env(config)


def make_vector_env(
    config: EnvConfig,
    num_envs: int,
    seeds: EpisodeSeeds,
    *,
    first_episodes: Sequence[int] | None = None,
    lessons: Lessons | None = None,
) -> VectorEnv:
    """Creates a vector env with B env slots.

    Args:
        config: Config of the env, including its backend.
        num_envs: Number of env slots, B.
        seeds: Episode seeds, a function of env slot and episode number; holds the worker index.
        first_episodes: Number of each env slot's first episode; 0 for all unless given.
        lessons: Curriculum arguments of the env slots; None without a curriculum.

    Raises:
        UsageError: A name or a keyword argument does not exist.
        EnvironmentUnusable: A package is not installed, or this is no env that rlrun can train on.
        EnvError: The env's own code raised.
    """
    env = _unchecked_vector_env(config, num_envs, seeds, first_episodes, lessons)
    return MaskedVectorEnv(env, config.id, seeds) if has_action_mask(env.observation_space) else env


def _unchecked_vector_env(
    config: EnvConfig,
    num_envs: int,
    seeds: EpisodeSeeds,
    first_episodes: Sequence[int] | None,
    lessons: Lessons | None,
) -> VectorEnv:
    """Creates a vector env with B env slots, without validation of action masks."""
    check_num_envs(config, num_envs)
    backend = backend_of(config)
    if backend == "envpool":
        return make_envpool(config, num_envs, seeds, first_episodes)
    if backend == "cartpole":
        return _make_cartpole(config, num_envs, seeds, first_episodes)
    if backend == "atari":
        atari, game, settings = _atari(config)
        made: VectorEnv = atari.SeededAtari(game, num_envs, settings, seeds, first_episodes)
        return made
    if backend == "gymnasium":
        return make_gymnasium(config, num_envs, seeds, first_episodes)
    firsts = first_episodes or [0] * num_envs
    envs = [
        make_single_env(
            config,
            worker_index=seeds.worker_index,
            env_index=slot,
            seed=seeds.seed(slot, firsts[slot]),
            lessons=lessons,
        )
        for slot in range(num_envs)
    ]
    require_separate(config.id, [env.unwrapped for env in envs])
    for slot, env in enumerate(envs):
        if (env.observation_space, env.action_space) != (envs[0].observation_space, envs[0].action_space):
            raise EnvironmentUnusable(
                f"env {config.id}: env slot {slot} has other spaces than env slot 0: "
                f"{env.observation_space}, {env.action_space}"
            )
    return LoopVectorEnv(config.id, envs, seeds, first_episodes, config.columns)


def check_num_envs(config: EnvConfig, num_envs: int) -> None:
    """Validates that an env that was passed as an instance is asked for as many env slots as it has.

    Raises:
        UsageError: Another number is asked for.
    """
    own = config.fixed_num_envs
    if own is not None and own != num_envs:
        raise UsageError(
            f"env {config.id} is an instance with {own} env slot{'s' if own > 1 else ''}, and {num_envs} are needed: "
            f"set num_envs_per_worker={own}, or pass a class or function that makes as many envs as are needed"
        )


def require_separate(env_id: str, made: Sequence[Any]) -> None:
    """Validates that each env slot, or each world, has an object of its own.

    Raises:
        EnvironmentUnusable: A factory returned the same object twice.
    """
    if len({id(env) for env in made}) < len(made):
        raise EnvironmentUnusable(
            f"env {env_id}: its factory returned the same object twice; it must make a new env at each call"
        )


def make_env(config: EnvConfig, *, render_mode: str | None = None, seed: int = 0) -> gymnasium.Env[Any, Any]:
    """Creates a single env with the spaces and wrappers of an env slot of `make_vector_env`.

    Args:
        config: Config of the env.
        render_mode: Gymnasium's render mode, or None.
        seed: Passed to a factory with this parameter; reset the env with the same seed for a reproducible episode.

    Raises:
        UsageError: A name or a keyword argument does not exist.
        EnvironmentUnusable: A package is not installed, or there is no such single env.
        EnvError: The env's own code raised.
    """
    backend = backend_of(config)
    if backend == "atari":
        atari, game, settings = _atari(config)
        env: gymnasium.Env[Any, Any] = atari.AtariEnv(game, settings, render_mode)
        return env
    if backend == "envpool":
        return _like_envpool(config, render_mode)
    if backend == "gymnasium" and is_factory(config.id):
        raise EnvironmentUnusable(f"env {config.id} is a gymnasium.vector env, which has no single env")
    return make_single_env(config, render_mode=render_mode, seed=seed)


def spaces_of(config: EnvConfig) -> Spaces:
    """Returns the observation and action space of one env slot; creates at most one env.

    Raises:
        UsageError: A name or a keyword argument does not exist.
        EnvironmentUnusable: A package is not installed, or this is no env that rlrun can train on.
        EnvError: The env's own code raised.
    """
    backend = backend_of(config)
    if backend == "envpool":
        return Spaces(*envpool_spaces(config))
    if backend == "gymnasium":
        made = make_vector_env(config, config.fixed_num_envs or 1, EpisodeSeeds(0, 0))
        made.close()
        return Spaces(made.observation_space, made.action_space)
    env = make_env(config)
    try:
        return Spaces(env.observation_space, env.action_space)
    finally:
        close_or_warn(env.close, config.id, "before any episode")


def check_same_spaces(whose: str, spaces: Spaces, trained: Spaces) -> None:
    """Validates that spaces are compatible with those of a trained policy; bounds may differ.

    Args:
        whose: Name in messages: the env, and the policy if there are several.
        spaces: Spaces of the env.
        trained: Spaces that the policy was trained with.

    Raises:
        UsageError: Observation or action spaces differ in structure, kind or shape.
    """
    kinds = zip(("observations", "actions"), spaces, trained, strict=True)
    for what, space, expected in kinds:
        if _form(space) != _form(expected):
            raise UsageError(f"{whose}: its {what} are {space}; the policy was trained with {expected}")


def _form(space: gymnasium.Space[Any]) -> Any:
    """Returns the structure of a space that a policy depends on: keys, kinds and shapes, without bounds."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {name: _form(part) for name, part in space.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return [_form(part) for part in space]
    return ("Box", space.shape) if isinstance(space, gymnasium.spaces.Box) else space


def env_names() -> list[EnvListing]:
    """Returns the envs in Gymnasium's registry by family, usable or not; ALE's envs only if ale_py is installed."""
    register_atari()
    listings = []
    for spec in gymnasium.registry.values():
        if not is_usable_kind(spec):
            continue
        try:
            check_installed(spec)
            usable = True
        except EnvironmentUnusable:
            usable = False
        backend = backend_of(EnvConfig(id=spec.id))
        listings.append(EnvListing(spec.id, _family(spec), backend, pip_command(spec), usable))
    names = sorted({listing.family for listing in listings} - {*FAMILIES, "atari"})
    order = {name: number for number, name in enumerate((*FAMILIES, *names, "atari"))}
    return sorted(listings, key=lambda listing: (order[listing.family], listing.id))


def _family(spec: EnvSpec) -> str:
    entry_point = spec.entry_point
    package = entry_point.partition(":")[0] if isinstance(entry_point, str) else str(entry_point.__module__)
    if package.startswith("ale_py"):
        return "atari"
    return package.removeprefix("gymnasium.envs.").partition(".")[0]


def _vector_form(spec: EnvSpec, config: EnvConfig) -> str:
    """Returns the backend of a registered env's native vector form, "" without a suitable one."""
    if spec.entry_point == _CARTPOLE and (config.max_episode_steps or spec.max_episode_steps):
        return "cartpole" if {*spec.kwargs, *config.kwargs} <= _CARTPOLE_KWARGS else ""
    entry_point = spec.vector_entry_point
    if entry_point is None:
        return ""
    return "atari" if str(entry_point).startswith("ale_py.") else "gymnasium"


def _make_cartpole(
    config: EnvConfig, num_envs: int, seeds: EpisodeSeeds, first_episodes: Sequence[int] | None
) -> VectorEnv:
    spec = find_spec(config.id)
    limit = config.max_episode_steps or spec.max_episode_steps
    kwargs = {**spec.kwargs, **config.kwargs}
    return SeededCartPole(num_envs, limit, seeds, first_episodes=first_episodes, **kwargs)


def _like_envpool(config: EnvConfig, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    """Creates the single Gymnasium env that corresponds to an EnvPool task, if there is an equivalent."""
    unusable = EnvironmentUnusable(f"env {config.id} of EnvPool has no single env with the same spaces")
    try:
        alike = EnvConfig(id=config.id, max_episode_steps=config.max_episode_steps)
        env = make_env(alike, render_mode=render_mode)
    except UsageError:
        raise unusable from None
    if (env.observation_space, env.action_space) != envpool_spaces(config):
        close_or_warn(env.close, config.id, "before any episode")
        raise unusable
    return env


def _atari(config: EnvConfig) -> tuple[Any, str, Any]:
    """Returns the Atari module, which imports ale_py, the game's ROM name and its settings."""
    spec = find_spec(config.id)
    check_installed(spec)
    found = version("ale-py")
    if tuple(int(number) for number in found.split(".")[:2]) < (0, 12):  # earlier ones cannot reset single env slots
        raise EnvironmentUnusable(f"env {config.id} needs ale-py 0.12, and {found} is installed: {pip_command(spec)}")
    atari = importlib.import_module("rlrun.engine.envs.atari_vector_env")
    return atari, spec.kwargs["game"], atari.atari_settings(config, spec)
