"""Calls of env and world factories, with arguments checked against their signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rlrun.engine.envs.vector_env import env_error
from rlrun.engine.messages.errors import EnvironmentUnusable, UsageError, did_you_mean


def made_by(
    factory: Callable[..., Any], env_id: str, kwargs: Mapping[str, Any], offered: Mapping[str, Any], where: str
) -> Any:
    """Calls the factory of an env or world, and returns the created object.

    Args:
        factory: The factory.
        env_id: Name of the env in messages.
        kwargs: Keyword arguments.
        offered: Optional arguments by name; each is passed if the factory has such a parameter.
        where: Description of the worker and env slot, or of the env's purpose, for messages.

    Raises:
        UsageError: The factory does not accept the keyword arguments.
        EnvStartFailed: The factory raised.
    """
    wanted = parameters_of(factory)
    kwargs = {**{name: value for name, value in offered.items() if name in wanted}, **kwargs}
    check_call(factory, (), kwargs, f"env {env_id}")
    try:
        return factory(**kwargs)
    except (Exception, SystemExit) as error:
        raise env_error(env_id, "its factory", where, error, starts=True) from error


def check_call(called: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], what: str) -> None:
    """Validates arguments against a callable's signature, so that any TypeError from the call comes from its body."""
    parameters = parameters_of(called)
    if not parameters:
        return
    if "render_mode" in kwargs and not {"render_mode", _any_keyword(called)} & {*parameters}:
        raise EnvironmentUnusable(f"{what} cannot render: it has no parameter render_mode")
    try:
        inspect.signature(called).bind(*args, **kwargs)
    except TypeError as error:
        unknown = [name for name in kwargs if name not in parameters]
        hint = did_you_mean(unknown[0], parameters) if unknown else ""
        if len(parameters) == 1 and len(unknown) == len(kwargs) > 0:  # envs written for RLlib take a single dict
            hint = hint or f"; if it takes them as one dict: kwargs: {{{parameters[0]}: {{{', '.join(unknown)}}}}}"
        raise UsageError(f"{what}: wrong keyword arguments: {error}{hint}") from None


def parameters_of(called: Callable[..., Any]) -> list[str]:
    """Returns the names of a callable's parameters; empty if unknown, as for some functions written in C."""
    try:
        return list(inspect.signature(called).parameters)
    except (TypeError, ValueError):
        return []


def _any_keyword(called: Callable[..., Any]) -> str:
    """Returns the name of a callable's `**kwargs` parameter, "" if there is none."""
    parameters = inspect.signature(called).parameters.values()
    return next((parameter.name for parameter in parameters if parameter.kind is parameter.VAR_KEYWORD), "")
