"""Lookup of env ids in Gymnasium's registry, without creating envs; errors suggest pip commands."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from rlrun.engine.envs.env_config import EnvConfig, is_unnamed
from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError
from rlrun.engine.settings.registry import load_internal, load_object

HINT = "rlrun.engine.envs.unknown_ids:hint_for"
"""Import path of the function that answers an unknown id."""

ENV_PACKAGES = "rlrun.engine.messages.foreign_names:env_packages"
"""Import path of the function that returns the packages known to register envs."""

_PACKAGES = {
    "gymnasium.envs.box2d": ("Box2D", "pip install 'rlrun[box2d]'"),
    "gymnasium.envs.mujoco": ("mujoco", "pip install 'rlrun[mujoco]'"),
    "gymnasium.envs.phys2d": ("jax", "pip install 'gymnasium[jax]'"),
    "gymnasium.envs.tabular": ("jax", "pip install 'gymnasium[jax]'"),
    "ale_py": ("ale_py", "pip install 'rlrun[atari]'"),
}
"""Required module and its pip command, by the package that an env's entry point belongs to."""

_ROBOTICS, _DM_CONTROL = ("gymnasium-robotics", (1, 4, 2), (3, 12)), ("dm-control", (1, 0, 50), (4,))
_FAIL_INSIDE = {
    "gymnasium_robotics.envs.fetch": _ROBOTICS,
    "gymnasium_robotics.envs.franka_kitchen": _ROBOTICS,
    "gymnasium_robotics.envs.shadow_dexterous_hand": _ROBOTICS,
    "dm_control/": _DM_CONTROL,
}
"""Package, its last broken version, and the first MuJoCo version that breaks it, by prefix of entry point or id."""


def is_factory(env_id: str) -> bool:
    """Whether an id names a factory of envs, as ``package.module:factory`` or, for a Python object, as ``<Name>``.

    Examples:
        >>> is_factory("tank:Tank"), is_factory("<Tank>"), is_factory("minigrid:MiniGrid-Empty-5x5-v0")
        (True, True, False)
    """
    if is_unnamed(env_id):
        return True
    module, colon, name = env_id.partition(":")
    return bool(colon) and all(word.isidentifier() for word in (*module.split("."), *name.split(".")))


def factory_of(config: EnvConfig, what: str = "env factory") -> Callable[..., Any]:
    """Returns the callable that creates an env or world, imported by its path or passed by the user in Python.

    Args:
        config: Config of the env, whose id names the factory.
        what: Word for the factory in messages.

    Raises:
        UsageError: The factory does not exist, is not callable, or was passed in another process.
        UserCodeError: Importing the factory's module raised an exception.
    """
    if config.given is not None:
        return config.given.factory
    if is_unnamed(config.id):
        raise UsageError(
            f"env {config.id} was passed as a Python object without an import path: pass it again as `env` "
            "(or `eval_env`) to Training.restore"
        )
    factory = load_object(config.id, what)
    if not callable(factory):
        raise UsageError(f"the {what} '{config.id}' must be callable, but its type is {type(factory).__name__}")
    return factory  # type: ignore[no-any-return]


def makes_vector_env(factory: Callable[..., Any]) -> bool:
    """Whether a factory creates `gymnasium.vector` envs: it is a vector env class, or has a parameter `num_envs`."""
    if isinstance(factory, type):
        return issubclass(factory, gymnasium.vector.VectorEnv)
    try:
        return "num_envs" in inspect.signature(factory).parameters
    except (TypeError, ValueError):  # callables in C have no signature
        return False


def find_spec(env_id: str) -> EnvSpec:
    """Returns the Gymnasium `EnvSpec` registered under an id.

    The version is a required part of the id: for an id without one, the error names the newest version. Older versions
    are accepted as well. ``package.module:Name-v0`` imports the module first, for packages that register their envs on
    import.

    Raises:
        UsageError: No env is registered under the id; the message names the nearest id.
        EnvironmentUnusable: The env's package is not installed; the message names the pip command.
    """
    module, colon, name = env_id.rpartition(":")
    if colon:
        if "." not in module and not is_installed(module) and module in load_internal(ENV_PACKAGES)():
            raise EnvironmentUnusable(f"env {env_id} needs {module}, which is not installed: pip install {module}")
        load_object(f"{module}:__name__", "env package")  # imports the module, with a clear message if that fails
    if name not in gymnasium.registry and not register_atari() and name.startswith("ALE/"):
        raise _lacks("ale_py", env_id)
    if name not in gymnasium.registry:
        raise UsageError(f"unknown env '{env_id}'{load_internal(HINT)(env_id)}")
    spec: EnvSpec = gymnasium.registry[name]
    return spec


def time_limit(config: EnvConfig) -> int | None:
    """Returns the number of steps after which an env truncates episodes; None if no limit is known.

    The limit comes from the settings, or else from the registration of a single-agent env.

    Raises:
        UsageError: No env is registered under the id.
        EnvironmentUnusable: The env's package is not installed.
    """
    if config.max_episode_steps is not None or config.has_many_agents or is_factory(config.id):
        return config.max_episode_steps
    registered: int | None = find_spec(config.id).max_episode_steps
    return registered


def check_installed(spec: EnvSpec) -> None:
    """Validates that the packages an env needs are installed and compatible with one another.

    Raises:
        EnvironmentUnusable: A package is not installed, or is incompatible with the installed version of another
            package; the message names the pip command.
    """
    package = _package_of(spec)
    if package and not is_installed(_PACKAGES[package][0]):
        raise _lacks(package, spec.id)
    if command := _command_for_mujoco(spec):
        raise EnvironmentUnusable(
            f"env {spec.id} fails inside its own package with MuJoCo {version('mujoco')}: {command}"
        )


def pip_command(spec: EnvSpec) -> str:
    """Returns the pip command for the packages that an env needs beyond Gymnasium, "" if there are none."""
    package = _package_of(spec)
    return _PACKAGES[package][1] if package else _command_for_mujoco(spec)


def register_atari() -> bool:
    """Registers ALE's envs by importing ale_py; returns whether ale_py is installed."""
    if not is_installed("ale_py"):
        return False
    ale_py = importlib.import_module("ale_py")
    gymnasium.register_envs(ale_py)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # prevents a banner for each new env
    return True


def is_usable_kind(spec: EnvSpec) -> bool:
    """Whether an id in Gymnasium's registry names an env, not a placeholder for an env that moved elsewhere."""
    return not callable(spec.entry_point) or getattr(spec.entry_point, "__module__", "") != "gymnasium.envs"


def is_installed(module: str) -> bool:
    """Whether a module or package can be imported; imports nothing."""
    found = importlib.util.find_spec(module)
    return found is not None and found.origin is not None  # a mere folder of that name is not a package


def _package_of(spec: EnvSpec) -> str | None:
    entry_point = spec.entry_point or spec.vector_entry_point
    path = entry_point if isinstance(entry_point, str) else ""
    return next((package for package in _PACKAGES if f"{path.partition(':')[0]}.".startswith(f"{package}.")), None)


def _command_for_mujoco(spec: EnvSpec) -> str:
    """Returns the pip command for a compatible MuJoCo; "" unless the env's package fails with the installed version."""
    named = (str(spec.entry_point), spec.id)
    found = next(
        (known for start, known in _FAIL_INSIDE.items() if any(name.startswith(start) for name in named)), None
    )
    if found is None:
        return ""
    package, last, first = found
    try:
        fails = _numbers(version(package)) <= last and _numbers(version("mujoco")) >= first
    except PackageNotFoundError:
        return ""
    return f"pip install 'mujoco<{'.'.join(map(str, first))}'" if fails else ""


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)[:3]))


def _lacks(package: str, env_id: str) -> EnvironmentUnusable:
    module, command = _PACKAGES[package]
    return EnvironmentUnusable(f"env {env_id} needs {module}, which is not installed: {command}")
