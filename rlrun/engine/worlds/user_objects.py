"""Envs and worlds that a user passes as Python objects: their names, and factories that return the instances."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv, VectorWrapper
from typing_extensions import override

from rlrun.engine.envs.env_config import UserEnv
from rlrun.engine.envs.env_ids import is_factory, makes_vector_env
from rlrun.engine.envs.factory_call import made_by
from rlrun.engine.envs.vector_env import close_or_warn
from rlrun.engine.messages.errors import Problem, SpecError, UsageError
from rlrun.engine.settings.registry import public_path
from rlrun.engine.worlds.games.array_game import ArrayGame
from rlrun.engine.worlds.games.game_tree import GameTree
from rlrun.engine.worlds.make_worlds import as_world, takes_num_worlds
from rlrun.engine.worlds.world import World
from rlrun.engine.worlds.wrappers import WrappedWorld

_OFFERED = {"worker_index": 0, "env_index": 0, "seed": 0}


def import_name(found: object) -> str:
    """Returns the import path ``package.module:Name`` of a class or function; "" if other processes cannot import it.

    Examples:
        >>> import_name(gymnasium.Env), import_name(lambda: None)
        ('gymnasium.core:Env', '')
    """
    module_name, name = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    path = f"{module_name}:{name}"
    module: Any = sys.modules.get(str(module_name))
    if module_name in ("__main__", "__mp_main__") or not is_factory(path) or getattr(module, "__spec__", None) is None:
        return ""
    for part in str(name).split("."):
        module = getattr(module, part, None)
    if module is not found:
        return ""
    return public_path(path) if path.startswith("rlrun.") else path


def named_object(found: object, kwargs: Mapping[str, Any], path: str) -> tuple[dict[str, str], UserEnv | None]:
    """Returns the setting (`id` or `world`) that names a Python object, and the object if it cannot be imported.

    Raises:
        SpecError: The object is not an env and does not create one.
    """
    if isinstance(found, gymnasium.Env | VectorEnv | World) or is_pettingzoo(type(found)):
        return _named_instance(found, kwargs)
    if not callable(found):
        kind = type(found).__name__
        reason = f"must be an env id, a mapping, or an env class, instance or function, not an object of type {kind}"
        raise SpecError([Problem(path, reason)])
    name = import_name(found)
    title = name or f"<{_title(found)}>"
    if isinstance(found, type):
        is_world = issubclass(found, World) or is_pettingzoo(found) or takes_num_worlds(found)
        if not is_world and not issubclass(found, gymnasium.Env | VectorEnv):
            reason = (
                f"the class {found.__name__} is not an env: derive it from gymnasium.Env, PettingZoo's "
                "ParallelEnv or AECEnv, or rlrun.plugin.World"
            )
            raise SpecError([Problem(path, reason)])
    else:
        is_world = takes_num_worlds(found) or (not makes_vector_env(found) and _makes_world(found, title, kwargs))
    return {"world" if is_world else "id": title}, None if name else UserEnv(found)


def _makes_world(function: Callable[..., Any], title: str, kwargs: Mapping[str, Any]) -> bool:
    """Whether a function creates a multi-agent world; calls it once."""
    made = made_by(function, title, kwargs, _OFFERED, "to inspect its env")
    is_world = isinstance(made, World) or is_pettingzoo(type(made))
    if is_world or isinstance(made, gymnasium.Env):  # anything else is refused when the first env is created
        close_or_warn(made.close, title, "before any episode")
    return is_world


def _named_instance(env: Any, kwargs: Mapping[str, Any]) -> tuple[dict[str, str], UserEnv]:
    """Returns the setting that names an instance, and the instance as a factory that lends it.

    Raises:
        UsageError: Keyword arguments are given.
    """
    base = env.unwrapped
    title = f"<{base if is_pettingzoo(type(base)) else _title(type(base))}>"
    if kwargs:
        raise UsageError(f"env {title} is already an instance: pass kwargs to its constructor instead")
    if isinstance(env, VectorEnv):
        return {"id": title}, UserEnv(_BorrowedVector(env), env, env.num_envs)
    if isinstance(env, gymnasium.Env):
        return {"id": title}, UserEnv(_Borrowed(_BorrowedEnv(env)), env, 1)
    return {"world": title}, UserEnv(_Borrowed(_BorrowedWorld(as_world(title, env))), env, 1)


def _title(found: object) -> str:
    """Returns the name of a class or function for messages."""
    if isinstance(found, functools.partial):
        return _title(found.func)
    name = str(getattr(found, "__qualname__", type(found).__qualname__)).rpartition(".")[2]
    return name.strip("<>")


def is_pettingzoo(kind: type) -> bool:
    """Whether a class is one of PettingZoo's envs, without importing PettingZoo for other classes."""
    if not any(base.__module__.partition(".")[0] == "pettingzoo" for base in kind.__mro__):
        return False
    pettingzoo = importlib.import_module("pettingzoo")
    return issubclass(kind, pettingzoo.ParallelEnv | pettingzoo.AECEnv)


@dataclass(frozen=True)
class _Borrowed:
    """Factory that returns a user's instance at each call."""

    env: Any

    def __call__(self) -> Any:
        return self.env


@dataclass(frozen=True)
class _BorrowedVector:
    """Factory that returns a user's vector env at each call."""

    env: Any

    def __call__(self, num_envs: int) -> Any:
        return _BorrowedVectorEnv(self.env)


class _BorrowedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """User's env, which rlrun steps but does not close."""

    @override
    def close(self) -> None:
        return


class _BorrowedVectorEnv(VectorWrapper):  # type: ignore[misc]  # gymnasium is not type-checked
    """User's vector env, which rlrun steps but does not close."""

    @override
    def close(self, **kwargs: Any) -> None:
        return


class _BorrowedWorld(WrappedWorld):
    """User's world, which rlrun steps but does not close."""

    @override
    def array_game(self) -> ArrayGame | None:
        return self.world.array_game()

    @override
    def game_tree(self) -> GameTree | None:
        return self.world.game_tree()

    @override
    def close(self) -> None:
        return
