"""Conversion of envs that a user passes as Python objects (classes, instances, functions) to env configs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic_core import PydanticSerializationError

from rlrun.engine.envs.env_config import WHICH_ENV, EnvConfig
from rlrun.engine.messages.errors import Problem, SpecError
from rlrun.engine.settings.registry import load_internal

EnvLike: TypeAlias = object
"""Env in Python: an id, a mapping as in YAML, a config, or an env's class, instance or function.

Gymnasium's envs and vector envs are accepted, PettingZoo's envs, and worlds.
"""

NAMES_THE_ENV = ("id", "world")
"""Settings whose value may be a Python object."""

NAMED_OBJECT = "rlrun.engine.worlds.user_objects:named_object"
"""Import path of the function that determines how a config names a Python object."""


def env_config(env: EnvLike, kwargs: Mapping[str, Any] | None = None, *, path: str = "env") -> EnvConfig:
    """Converts any form of env (id, mapping, config or Python object) to an env config.

    A class or function with an import name is referenced by that name, so that other processes and checkpoints find it.
    A function is called once to determine what it creates, unless it has a parameter `num_envs` or `num_worlds`.

    Args:
        env: The env; in a mapping, the values of `id` and `world` may also be Python objects.
        kwargs: Keyword arguments of the env, merged over those in a mapping or a config.
        path: Name of the env in messages.

    Raises:
        SpecError: The settings are invalid, or the object is not an env; the error lists all mistakes.
        UsageError: An instance is given keyword arguments.
        EnvError: The function raised an exception.
    """
    if isinstance(env, EnvConfig):
        return env.replace(kwargs={**env.kwargs, **kwargs}) if kwargs else env
    data: dict[str, Any] = dict(env) if isinstance(env, Mapping) else {"id": env}
    if kwargs:
        own = data.get("kwargs", {})
        data["kwargs"] = {**own, **kwargs} if isinstance(own, Mapping) else own
    name = next((name for name in NAMES_THE_ENV if name in data and not isinstance(data[name], str)), None)
    if name is None:
        return EnvConfig.parse(data, path=path)
    named, given = load_internal(NAMED_OBJECT)(data.pop(name), data.get("kwargs") or {}, path)
    config = EnvConfig.parse({**named, **data}, path=path)
    try:
        config.to_data()
    except PydanticSerializationError as error:
        reason = (
            f"must be plain data that checkpoints can store; to pass other objects to the env, use a function ({error})"
        )
        raise SpecError([Problem(path, reason)]) from None
    return config if given is None else config.with_user_env(given)


def replaced_env(saved: EnvConfig, env: EnvLike) -> EnvConfig:
    """Returns the config of an env that replaces the saved env of a run.

    If the new env is a mapping or a config, it replaces all saved settings. If it is an id or an object, the other
    settings of the saved env, such as `kwargs`, are kept.
    """
    if isinstance(env, EnvConfig | Mapping):
        return env_config(env)
    return env_config({**other_settings(saved), "id": env})


def other_settings(env: EnvConfig) -> dict[str, Any]:
    """Returns an env's settings that differ from their defaults, without those that name the env, such as `id`."""
    written = env.model_dump(mode="json", exclude_defaults=True)
    return {key: value for key, value in written.items() if key not in WHICH_ENV}
