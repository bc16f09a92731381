"""Creation of a single Gymnasium env from its config: registered id or factory, time limit and wrappers."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from rlrun.engine.data.action_masks import METHOD
from rlrun.engine.envs.env_config import EnvConfig, WrapperConfig, kwargs_of_tasks
from rlrun.engine.envs.env_ids import check_installed, factory_of, find_spec, is_factory, is_usable_kind
from rlrun.engine.envs.env_watch import Watched
from rlrun.engine.envs.factory_call import check_call, made_by, parameters_of
from rlrun.engine.envs.spaces import check_spaces
from rlrun.engine.envs.vector_env import env_error
from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError, did_you_mean
from rlrun.engine.settings.registry import load_internal, load_object

if TYPE_CHECKING:
    from rlrun.engine.envs.tasks import Lessons

Env: TypeAlias = "gymnasium.Env[Any, Any]"

PARTS = {
    "action masks": "rlrun.engine.envs.action_masks:with_action_masks",
    "check of tasks": "rlrun.engine.envs.tasks:check_functions",
    "nearest id": "rlrun.engine.envs.unknown_ids:nearest_id",
    "tasks": "rlrun.engine.envs.tasks:task_env",
}
"""Import paths of functions that only some envs need."""


def make_single_env(
    config: EnvConfig,
    *,
    render_mode: str | None = None,
    worker_index: int = 0,
    env_index: int = 0,
    seed: int = 0,
    lessons: Lessons | None = None,
) -> Env:
    """Creates the single env of one env slot, for backends that step single envs in a loop.

    Args:
        config: Config of the env.
        render_mode: Gymnasium's render mode, or None.
        worker_index: Index of the rollout worker, passed to the factory if it has such a parameter.
        env_index: Index of the worker's env slot, passed to the factory if it has such a parameter.
        seed: Seed of the first episode, passed to the factory if it has such a parameter.
        lessons: Keyword arguments that a curriculum sets for the env slots; None without a curriculum.

    Raises:
        UsageError: The id, a wrapper or a keyword argument does not exist.
        EnvironmentUnusable: A package is missing, or the created object is not an env or has unsupported spaces.
        EnvError: The env's own code raised.
    """
    offered: dict[str, Any] = {"worker_index": worker_index, "env_index": env_index, "seed": seed}
    kwargs = dict(config.kwargs) if render_mode is None else {**config.kwargs, "render_mode": render_mode}
    where = f"worker {worker_index}, env {env_index}"
    if not config.varies:
        return _of_one_task(config, kwargs, offered, where)
    made: Env = load_internal(PARTS["tasks"])(
        config, lambda more: _of_one_task(config, {**kwargs, **more}, offered, where), lessons, env_index
    )
    return made


def _of_one_task(config: EnvConfig, kwargs: dict[str, Any], offered: Mapping[str, Any], where: str) -> Env:
    """Creates the env of one task, with the task's keyword arguments."""
    with Watched(f"env {config.id}: making it ({where})"):
        env = (
            _from_factory(config, kwargs, offered, where)
            if is_factory(config.id)
            else _from_registry(config, kwargs, where)
        )
        for wrapper in config.wrappers:
            env = _wrapped(env, wrapper, config.id, where)
    # Wrappers report a missing attribute as an AttributeError, hence the defaults.
    check_spaces(config.id, getattr(env, "observation_space", None), getattr(env, "action_space", None))
    if env.has_wrapper_attr(METHOD):
        env = load_internal(PARTS["action masks"])(env)
    return WithResetOptions(env, config.reset_options) if config.reset_options else env


def check_single_env(config: EnvConfig) -> None:
    """Validates an env config without creating the env: id or factory, wrappers, packages, keyword arguments.

    Raises:
        UsageError: A name or a keyword argument does not exist.
        EnvironmentUnusable: A package is not installed.
        UserCodeError: Importing the module of a factory or wrapper raised an exception.
    """
    if config.varies:
        load_internal(PARTS["check of tasks"])(config.tasks, config.curriculum)
    for wrapper in config.wrappers:
        check_call(wrapper_class(wrapper), (None,), wrapper.kwargs, f"wrapper {wrapper.id}")
    if is_factory(config.id):
        factory = factory_of(config)
        offered: dict[str, Any] = {
            name: 0 for name in ("worker_index", "env_index", "seed") if name in parameters_of(factory)
        }
        for kwargs in kwargs_of_tasks(config.kwargs, config.tasks):
            check_call(factory, (), {**offered, **kwargs}, f"env {config.id}")
        return
    spec = _usable_spec(config.id)
    for kwargs in kwargs_of_tasks(config.kwargs, config.tasks):
        if kwargs:
            check_call(_creator(spec), (), {**spec.kwargs, **kwargs}, f"env {config.id}")
            _check_model_file(spec, kwargs)


def _from_factory(config: EnvConfig, kwargs: dict[str, Any], offered: Mapping[str, Any], where: str) -> Env:
    env = made_by(factory_of(config), config.id, kwargs, offered, where)
    if not isinstance(env, gymnasium.Env):
        raise EnvironmentUnusable(
            f"env {config.id}: its factory must return a gymnasium.Env, {_not_an_env(env, config.id)}"
        )
    return env if config.max_episode_steps is None else gymnasium.wrappers.TimeLimit(env, config.max_episode_steps)


def _from_registry(config: EnvConfig, kwargs: dict[str, Any], where: str) -> Env:
    spec = _usable_spec(config.id)
    # An id with a version is used as it is: an older version is a choice that needs no warning.
    # Order enforcing would add a call to each step to detect errors that the loop backend never makes.
    spec = dataclasses.replace(spec, order_enforce=False)
    check_call(_creator(spec), (), {**spec.kwargs, **kwargs}, f"env {config.id}")
    _check_model_file(spec, kwargs)
    try:
        with _without_model_warnings(spec):
            return gymnasium.make(spec, config.max_episode_steps, disable_env_checker=True, **kwargs)
    except gymnasium.error.DependencyNotInstalled as error:
        raise EnvironmentUnusable(f"env {config.id}: {error}") from error
    except (Exception, SystemExit) as error:
        raise env_error(config.id, "its constructor", where, error, starts=True) from error


def _creator(spec: EnvSpec) -> Callable[..., Any]:
    """Returns the entry point of a registered env; the import may fail in the user's module."""
    if not isinstance(spec.entry_point, str):
        return spec.entry_point  # type: ignore[no-any-return]
    try:
        with warnings.catch_warnings():
            # Box2D's bindings print warnings about themselves on every import.
            warnings.filterwarnings("ignore", r"builtin type \w+ has no __module__ attribute", DeprecationWarning)
            return load_env_creator(spec.entry_point)  # type: ignore[no-any-return]
    except gymnasium.error.DependencyNotInstalled as error:
        raise EnvironmentUnusable(f"env {spec.id}: {error}") from error
    except Exception as error:
        raise env_error(
            spec.id, f"the import of {spec.entry_point}", "before any was made", error, starts=True
        ) from error


def _usable_spec(env_id: str) -> EnvSpec:
    """Returns the `EnvSpec` of an env that can be created as a single env and whose dependencies are installed."""
    spec = find_spec(env_id)
    if not is_usable_kind(spec):
        newer = [known.id for known in gymnasium.registry.values() if is_usable_kind(known)]
        hint = load_internal(PARTS["nearest id"])(env_id, newer)
        raise EnvironmentUnusable(f"env {env_id} is no longer part of Gymnasium{hint}")
    check_installed(spec)
    if spec.entry_point is None:
        raise UsageError(f"env {env_id} is registered only as a vector env: use backend: vector, without wrappers")
    return spec


def _wrapped(env: Env, wrapper: WrapperConfig, env_id: str, where: str) -> Env:
    chosen = wrapper_class(wrapper)
    check_call(chosen, (env,), wrapper.kwargs, f"wrapper {wrapper.id}")
    try:
        wrapped = chosen(env, **wrapper.kwargs)
    except gymnasium.error.DependencyNotInstalled as error:
        raise EnvironmentUnusable(f"wrapper {wrapper.id}: {error}") from error
    except UsageError as error:  # raised by a wrapper that ships with rlrun
        raise UsageError(f"env {env_id}: wrapper {wrapper.id}: {error}") from error
    except (Exception, SystemExit) as error:
        raise env_error(env_id, f"the constructor of wrapper {wrapper.id}", where, error, starts=True) from error
    if not isinstance(wrapped, gymnasium.Env):
        raise EnvironmentUnusable(f"wrapper {wrapper.id} must return a gymnasium.Env, {_not_an_env(wrapped, env_id)}")
    return wrapped


def wrapper_class(wrapper: WrapperConfig) -> Callable[..., Any]:
    """Returns the class or function that a wrapper's config names.

    Raises:
        UsageError: There is no such wrapper.
        EnvironmentUnusable: A package that the wrapper needs is not installed.
        UserCodeError: Importing the wrapper's module raised an exception.
    """
    if ":" in wrapper.id:
        return load_object(wrapper.id, "env wrapper")  # type: ignore[no-any-return]
    names = [name for name in gymnasium.wrappers.__all__ if name != "vector"]
    if wrapper.id not in names:
        hint = did_you_mean(wrapper.id, names) or "; for your own wrapper, write package.module:Class"
        raise UsageError(f"gymnasium.wrappers has no wrapper '{wrapper.id}'{hint}")
    try:
        return getattr(gymnasium.wrappers, wrapper.id)  # type: ignore[no-any-return]
    except (ImportError, gymnasium.error.DependencyNotInstalled) as error:  # some are imported on first access
        raise EnvironmentUnusable(f"wrapper {wrapper.id}: {error}") from error


def _not_an_env(found: Any, factory: str) -> str:
    if found is None:
        return "but it returned None: is a return statement missing?"
    bases = [base.__module__ for base in type(found).__mro__]
    packages = [module.partition(".")[0] for module in bases]
    if "gym" in packages:
        return "but it returned an env of the old gym package: derive it from gymnasium.Env"
    if "pettingzoo" in packages or "rlrun.engine.worlds.world" in bases:
        return f"but it returned a multi-agent world of type {type(found).__name__}: write env: {{world: {factory}}}"
    return f"but it returned an object of type {type(found).__name__}"


def _check_model_file(spec: EnvSpec, kwargs: Mapping[str, Any]) -> None:
    """Validates that the model file in the arguments of a Gymnasium MuJoCo env exists.

    Raises:
        UsageError: Gymnasium would not find the file.
    """
    file = kwargs.get("xml_file")
    if not isinstance(file, str) or not _is_mujoco(spec):
        return
    try:
        importlib.import_module("gymnasium.envs.mujoco.mujoco_env").expand_model_path(file)
    except OSError as error:
        raise UsageError(
            f"env {spec.id}: kwargs.xml_file: {error}; Gymnasium looks for '{file}' among its own models "
            f"unless the path starts with / or ./ (the current folder, {Path.cwd()})"
        ) from None


def _is_mujoco(spec: EnvSpec) -> bool:
    return str(spec.entry_point).startswith("gymnasium.envs.mujoco.")


@contextlib.contextmanager
def _without_model_warnings(spec: EnvSpec) -> Iterator[None]:
    """Suppresses MuJoCo's message on a deprecated attribute in Gymnasium's own HalfCheetah.

    MuJoCo would print the message for each env, and leave a MUJOCO_LOG.TXT in the working directory. Other messages of
    MuJoCo about a model become Python warnings.
    """
    if not _is_mujoco(spec):
        yield
        return
    mujoco = importlib.import_module("mujoco")

    def hear(text: str) -> None:
        if "settotalmass" not in text:
            warnings.warn(f"MuJoCo warning about the model of {spec.id}: {text}", stacklevel=2)

    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(hear)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


class WithResetOptions(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]  # gymnasium is not type-checked
    """Env wrapper that passes fixed options to every `reset`.

    Args:
        env: The env.
        options: Reset options, copied for each episode, since the env may change them.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], options: Mapping[str, Any]) -> None:
        super().__init__(env)
        self.options = dict(options)
        self.step = env.step  # a wrapper's own `step` would add a call to each step

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the env with the fixed options, updated by the call's options."""
        return self.env.reset(seed=seed, options=copy.deepcopy(self.options) | (options or {}))  # type: ignore[no-any-return]
