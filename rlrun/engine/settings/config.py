"""Base of all configs: frozen, strictly validated pydantic models with readable error messages.

A config is a frozen pydantic model whose every field has a default (or is required) and a docstring. It is validated
strictly from YAML data: ``true`` and ``"3"`` are not numbers, and an unknown key is an error. Two types that YAML
cannot express are converted: a list to a tuple, and a float without a fraction to an integer, as in ``env_steps: 1e6``.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeGuard,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from annotated_types import Ge, Gt, Le, Len, MinLen
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo
from typing_extensions import override

from rlrun.engine.messages.errors import SpecError
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass

    from rlrun.engine.messages.explain import Mistake
else:
    ModelMetaclass = type(BaseModel)

EXPLANATIONS = {
    "annotation": "rlrun.engine.messages.explain:annotation_at",
    "counterpart": "rlrun.engine.messages.foreign_names:counterpart_message",
    "error of a key": "rlrun.engine.messages.explain:UnknownKey",
    "mistakes": "rlrun.engine.messages.explain:mistakes_of",
    "problems": "rlrun.engine.messages.explain:problems_of",
    "unknown key": "rlrun.engine.messages.foreign_names:unknown_key",
    "value": "rlrun.engine.messages.explain:shown",
}
"""Import paths of functions that explain mistakes, which are loaded only for invalid settings."""

PositiveInt = Annotated[int, Gt(0)]
"""Integer above 0."""
NonNegativeInt = Annotated[int, Ge(0)]
"""Integer, 0 or above."""
PositiveFloat = Annotated[float, Gt(0)]
"""Finite number above 0."""
NonNegativeFloat = Annotated[float, Ge(0)]
"""Finite number, 0 or above."""
Fraction = Annotated[float, Ge(0), Le(1)]
"""Number from 0 to 1, inclusive."""
ImportPath = Annotated[str, StringConstraints(pattern=r"^[\w.]+:[\w.]+$")]
"""Import path of a custom object, `package.module:Name`."""

NonEmptyText = Annotated[str, MinLen(1)]
"""Text with at least one character."""


def _with_settings(plugins: Any) -> Any:
    """Converts a list of classes to settings by import path; a bare path has no settings."""
    if not isinstance(plugins, list | tuple):
        given = load_internal(EXPLANATIONS["value"])(plugins)
        raise ValueError(f"must be a list of package.module:Class, each optionally with settings, not {given}")
    return tuple({plugin: {}} if isinstance(plugin, str) else plugin for plugin in plugins)


Plugin = Annotated[dict[NonEmptyText, dict[str, Any]], Len(1, 1)]
_PLUGIN_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "object", "minProperties": 1, "maxProperties": 1}]}
Plugins = Annotated[
    tuple[Plugin, ...], BeforeValidator(_with_settings), WithJsonSchema({"type": "array", "items": _PLUGIN_SCHEMA})
]
"""List of custom classes, each with settings by its import path: ``[my_lab.hooks:Plateau: {patience: 3}]``."""


class _Explaining(ModelMetaclass):
    """Metaclass of configs, whose constructor call raises SpecError instead of pydantic's ValidationError."""

    @override
    def __call__(self, **values: Any) -> Any:
        try:
            return super().__call__(**values)
        except ValidationError as error:
            mistakes = cast("type[ConfigModel]", self).mistakes(error)
            raise SpecError(load_internal(EXPLANATIONS["problems"])(mistakes)) from None


class ConfigModel(BaseModel, metaclass=_Explaining):
    """Base class of all configs: a frozen pydantic model that rejects unknown keys and explains all mistakes.

    Subclasses declare fields, each with a default and a docstring below it; the docstrings appear in commented YAML,
    the JSON Schema and the documentation. Rules across fields are model validators that raise ValueError. The decorator
    `defaults` overrides defaults of inherited fields, and `fixed` removes fields. A section is a field whose default is
    a config; a mapping given for a section changes only the keys that it names.
    """

    refused: ClassVar[Mapping[str, str]] = {}
    """Reasons why inherited settings cannot be set in this class, by name."""

    fixed_fields: ClassVar[Mapping[str, FieldInfo]] = {}
    """Definitions of inherited fields that `fixed` has removed, by name; their values are class attributes."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _convert(cls, data: Any) -> Any:
        """Converts lists to tuples and whole floats to ints, and completes sections with their defaults."""
        if not isinstance(data, Mapping):
            return data
        fields = cls.model_fields
        return {key: _converted(fields[key], value) if key in fields else value for key, value in data.items()}

    @override
    @classmethod
    def __pydantic_init_subclass__(cls, **arguments: Any) -> None:
        """Removes fields that a base class has fixed, since pydantic collects them again from the annotations."""
        super().__pydantic_init_subclass__(**arguments)
        bases = [vars(base).get("refused", {}) for base in reversed(cls.__mro__)]
        refused = {name: reason for reasons in bases for name, reason in reasons.items()}
        if refused:
            cls.refused = refused
            _take_away(cls, refused)

    @classmethod
    def parse(cls, data: Any, *, path: str = "") -> Self:
        """Creates a config from plain data, after validating it.

        Args:
            data: Mapping from field names to values, or another form that the class accepts (an env may be a bare id).
            path: Dotted path of the data inside a spec, prepended to the path of each problem.

        Raises:
            SpecError: The data is invalid; the error lists all mistakes, with rlrun's messages instead of pydantic's.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise SpecError(load_internal(EXPLANATIONS["problems"])(cls.mistakes(error), path)) from None

    @classmethod
    def mistakes(cls, error: ValidationError) -> list[Mistake]:
        """Converts pydantic's validation error for this config class to a list of mistakes with readable messages."""
        found: list[Mistake] = load_internal(EXPLANATIONS["mistakes"])(error, cls)
        return [replace(each, message=cls._key_message(each) or each.message) for each in found]

    @classmethod
    def _key_message(cls, mistake: Mistake) -> str:
        """Returns the error message for an unknown key; "" for other mistakes."""
        if not mistake.at_key:
            return ""
        name = str(mistake.location[-1])
        section = config_in(load_internal(EXPLANATIONS["annotation"])(cls, mistake.location[:-1]))
        if section is None or name in section.model_fields:  # a validator has already reported what is wrong
            return ""
        if gone := section.why_gone(name):
            return gone
        unknown: str = load_internal(EXPLANATIONS["unknown key"])(name, section.model_fields)
        return unknown

    @classmethod
    def why_gone(cls, name: str) -> str:
        """Returns the reason why a config has no setting with a given name; "" if the name is unknown.

        Either the config class fixes the setting, or the name is another library's for a setting that rlrun has under
        a different name.
        """
        if name in cls.refused:
            return f"cannot be set here, because {cls.refused[name]}"
        if name in cls.model_fields:
            return ""
        message: str = load_internal(EXPLANATIONS["counterpart"])(name, [cls.has_setting], cls.model_fields)
        return message

    @classmethod
    def has_setting(cls, name: str) -> bool:
        """Whether the config has a setting with a given dotted name, such as `model.hiddens`."""
        first, _, rest = name.partition(".")
        if first not in cls.model_fields or not rest:
            return first in cls.model_fields
        section = cls.model_fields[first].annotation
        return is_config(section) and section.has_setting(rest)

    def replace(self, **changes: Any) -> Self:
        """Returns a copy of this config with some fields changed, validated again.

        A mapping for a section changes only the keys in the mapping.

        Raises:
            SpecError: A change is not valid.
        """
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return self.parse({**values, **(self.model_extra or {}), **self.merged(changes)})

    @override
    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yields the settings that differ from their defaults."""
        fields = type(self).model_fields
        return ((n, v) for n, v in self if n not in fields or v != fields[n].get_default(call_default_factory=True))

    def to_data(self) -> dict[str, Any]:
        """Converts the config to plain data (mappings, lists, strings, numbers), from which `parse` restores it."""
        return self.model_dump(mode="json")

    def merged(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the explicitly set fields by name, updated with other data; sections are merged key by key."""
        result = {name: getattr(self, name) for name in self.model_fields_set}
        for key, value in data.items():
            section = result.get(key)
            if isinstance(section, ConfigModel) and isinstance(value, Mapping):
                value = section.merged(value)
            result[key] = value
        return result


Points = tuple[tuple[NonNegativeInt, NonNegativeFloat], ...]


def _ascending(schedule: Any) -> Any:
    if isinstance(schedule, tuple):
        steps = [env_steps for env_steps, _ in schedule]
        if not steps:
            raise ValueError("a schedule needs at least one point [env_steps, value]")
        if any(later <= earlier for earlier, later in itertools.pairwise(steps)):
            raise ValueError(f"the env_steps of a schedule's points must ascend, not {steps}")
    return schedule


class Cosine(ConfigModel):
    """Schedule over env steps whose values follow half a cosine between points (SGDR, arXiv:1608.03983, eq. 5)."""

    cosine: Annotated[Points, AfterValidator(_ascending)]
    """Points [env_steps, value]; values are constant before the first and after the last."""


Schedule = Annotated[NonNegativeFloat | Points | Cosine, AfterValidator(_ascending)]
"""Type of a schedule over env steps: a constant, or points ``[[env_steps, value], ...]`` with linear interpolation
between the points and constant values outside; ``{cosine: [[env_steps, value], ...]}`` interpolates by half a cosine.
Values are never negative."""


class AdaptiveRate(ConfigModel):
    """Settings of a learning rate that adapts to the KL divergence of the policy from the one before the update.

    The rate is divided by 1.5 if the divergence exceeds twice the target, and multiplied by 1.5 if it is below half the
    target.
    """

    adaptive_kl: PositiveFloat
    """Target of the KL divergence."""
    initial: PositiveFloat = 3e-4
    """Initial learning rate."""
    bounds: tuple[PositiveFloat, PositiveFloat] = (1e-5, 1e-2)
    """Lowest and highest learning rate."""
    every: Literal["minibatch", "epoch"] = "minibatch"
    """Period of the adaptation: after each minibatch, by its KL divergence, or after each epoch, by the mean over its
    minibatches."""

    @model_validator(mode="after")
    def _initial_within_bounds(self) -> AdaptiveRate:
        least, most = self.bounds
        if not least <= self.initial <= most:
            raise ValueError(f"initial ({self.initial:g}) must be within bounds ([{least:g}, {most:g}])")
        return self


LearningRate = Annotated[NonNegativeFloat | Points | Cosine | AdaptiveRate, get_args(Schedule)[1]]
"""Learning rate: a `Schedule`, or a rate that adapts to the KL divergence of updates."""


Model = TypeVar("Model", bound=ConfigModel)


def is_config(annotation: Any) -> TypeGuard[type[ConfigModel]]:
    """Whether a type annotation is a config class, i.e. a subclass of `ConfigModel`."""
    return isinstance(annotation, type) and issubclass(annotation, ConfigModel)


def config_in(annotation: Any) -> type[ConfigModel] | None:
    """Returns the config class in a type annotation: the annotation itself, or the first config class of a union.

    The result is None if there is none.
    """
    if get_origin(annotation) is Annotated:
        return config_in(get_args(annotation)[0])
    is_union = get_origin(annotation) in (Union, types.UnionType)
    return next(filter(is_config, get_args(annotation) if is_union else (annotation,)), None)


def defaults(**values: Any) -> Callable[[type[Model]], type[Model]]:
    """Class decorator that overrides the defaults of inherited settings, with validation.

    A mapping for a section changes only the keys that it names; the section's other defaults are inherited.

    Examples:
        >>> class Rung(ConfigModel):
        ...     width: PositiveInt = 3
        >>> defaults(width=4)(Rung)().width
        4

    Raises:
        SpecError: A setting does not exist, or its new default is invalid.
    """

    def change(model: type[Model]) -> type[Model]:
        checked = model.parse(values, path=model.__name__)
        for name in values:
            model.model_fields[name] = field = copy(model.model_fields[name])
            field.default = getattr(checked, name)
        model.model_rebuild(force=True)
        return model

    return change


def fixed(reason: str, **values: Any) -> Callable[[type[Model]], type[Model]]:
    """Class decorator that fixes inherited settings to values that a spec cannot change.

    The values can be read as class attributes. A spec that sets one of them is rejected with the reason. For a section,
    a mapping fixes only the keys that it names; `{}` or a config fixes the whole section.

    Args:
        reason: Reason, as text that follows "cannot be set here, because " in the message.
        values: Fixed values by setting.

    Raises:
        SpecError: A setting does not exist, or its value is invalid.
    """

    def change(model: type[Model]) -> type[Model]:
        checked = model.parse(values, path=model.__name__)
        keys = {name: value for name, value in values.items() if value and isinstance(value, Mapping)}
        keys = {name: value for name, value in keys.items() if isinstance(getattr(checked, name), ConfigModel)}
        for name, value in keys.items():
            _fix_keys(model, name, reason, value)
        whole = [name for name in values if name not in keys]
        for name in whole:
            setattr(model, name, getattr(checked, name))
        model.refused = {**model.refused, **dict.fromkeys(whole, reason)}
        _take_away(model, whole)
        return model

    return change


def _fix_keys(model: type[ConfigModel], name: str, reason: str, values: Mapping[str, Any]) -> None:
    """Fixes keys of a section; the section's class becomes an attribute of the model, so that pickle can find it."""
    field = copy(model.model_fields[name])
    usual: ConfigModel = field.default
    own_name = f"{model.__name__.removesuffix('Config')}{''.join(map(str.capitalize, name.split('_')))}Config"
    place = {"__module__": model.__module__, "__qualname__": f"{model.__qualname__}.{own_name}"}
    own = cast("type[ConfigModel]", type(own_name, (type(usual),), {**place, "__doc__": type(usual).__doc__}))
    own = fixed(reason, **values)(own)
    setattr(model, own_name, own)
    field.annotation = own
    field.default = own.parse({key: value for key, value in usual.merged({}).items() if key not in values})
    model.model_fields[name] = field


def _take_away(model: type[ConfigModel], names: Iterable[str]) -> None:
    there = [name for name in names if name in model.model_fields]
    taken = {name: model.model_fields.pop(name) for name in there}
    model.fixed_fields = {**taken, **model.fixed_fields}  # inherited fields win: a derived class's lack constraints
    model.model_rebuild(force=True)


def _converted(field: FieldInfo, value: Any) -> Any:
    """Converts a value to the form of its field; mappings are merged over a section's default."""
    if isinstance(field.default, ConfigModel) and isinstance(value, Mapping):
        return field.default.merged(value)
    return _fit(field.annotation, value)


def _fit(annotation: Any, value: Any) -> Any:
    """Converts a value to the type of an annotation if YAML cannot express that type (tuples, integral floats)."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _fit(arguments[0], value)
    if origin in (Union, types.UnionType):
        return _fit_union([member for member in arguments if member is not types.NoneType], value)
    if annotation is int and type(value) is float and value.is_integer():
        return int(value)
    if annotation is tuple or origin is tuple:
        return _fit_tuple(arguments, value) if isinstance(value, list | tuple) else value
    if origin is list and isinstance(value, list):
        return [_fit(arguments[0], item) for item in value]
    if origin is dict and isinstance(value, Mapping):
        return {key: _fit(arguments[1], item) for key, item in value.items()}
    return value


def _fit_union(members: list[Any], value: Any) -> Any:
    if len(members) == 1:
        return _fit(members[0], value)
    if any(type(value) is (get_args(member)[0] if get_origin(member) is Annotated else member) for member in members):
        return value
    fitted = (_fit(member, value) for member in members)
    return next((candidate for candidate in fitted if type(candidate) is not type(value)), value)


def _fit_tuple(arguments: tuple[Any, ...], value: list[Any] | tuple[Any, ...]) -> tuple[Any, ...]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_fit(arguments[0], item) for item in value)
    if len(arguments) != len(value):
        return tuple(value)
    return tuple(_fit(argument, item) for argument, item in zip(arguments, value, strict=True))
