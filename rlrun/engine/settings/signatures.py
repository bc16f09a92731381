"""Signatures of algorithms, for `help` and notebooks: each setting is a named argument with its default."""

from __future__ import annotations

import functools
import inspect
import operator
import types
from inspect import Parameter, Signature
from typing import Annotated, Any, Union, get_args, get_origin

from rlrun.engine.settings.config import ConfigModel


class SettingsByName:
    """Descriptor for the `__signature__` of algorithm classes.

    A class with a constructor of its own has that constructor's signature, and a class without settings its base's.
    """

    def __get__(self, instance: object, owner: type[Any]) -> Signature:
        constructor = owner.__init__
        parameters = inspect.signature(constructor).parameters
        config = getattr(owner, "Config", None)
        if config is None or "__init__" in vars(owner) or "config" not in parameters:
            return Signature([*parameters.values()][1:])
        first = parameters["config"].replace(annotation=config | None)
        return Signature([first, *settings_of(config)])


def settings_of(config: type[ConfigModel]) -> list[Parameter]:
    """Returns a keyword-only parameter for each setting, with its type without constraints, and its default.

    Examples:
        >>> class Ladder(ConfigModel):
        ...     rungs: Annotated[int, "positive"] = 3
        ...     slope: float | None = None
        >>> str(Signature(settings_of(Ladder)))
        '(*, rungs: int = 3, slope: float | None = None)'
    """
    return [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.is_required() else field.get_default(call_default_factory=True),
            annotation=_plain_type(field.annotation),
        )
        for name, field in config.model_fields.items()
    ]


def _plain_type(annotation: Any) -> Any:
    """Returns a type without pydantic's constraints."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _plain_type(arguments[0])
    if origin in (Union, types.UnionType):
        return functools.reduce(operator.or_, map(_plain_type, arguments))
    if origin in (tuple, list, dict):
        return origin[tuple(map(_plain_type, arguments))]
    return annotation
