"""Typed configs: frozen, strict, explained.

A config is a frozen pydantic model whose every field has a default (or is required) and a docstring. It takes YAML's
data as it comes, strictly: ``true`` is no number, ``"3"`` is no number, an unknown key is an error. Two forms are
eased, because YAML has no other way to write them: a list is accepted for a tuple, and a float without fraction for a
whole number, so that ``env_steps: 1e6`` is one.

Examples:
    >>> class Ladder(ConfigModel):
    ...     rungs: PositiveInt = 3
    ...     slope: Fraction = 0.5
    >>> Ladder.parse({"rungs": 1e1}).rungs
    10
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeGuard, TypeVar, Union, cast, get_args, get_origin

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator
from pydantic.fields import FieldInfo

from rlrun.errors import SpecError
from rlrun.explain import Mistake, annotation_at, mistakes_of, problems_of, shown
from rlrun.foreign_names import ours_for, unknown_key
from rlrun.renamed_settings import RENAMED_SETTINGS

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

PositiveInt = Annotated[int, Gt(0)]
"""A whole number above 0."""
NonNegativeInt = Annotated[int, Ge(0)]
"""A whole number, 0 or above."""
PositiveFloat = Annotated[float, Gt(0)]
"""A finite number above 0."""
NonNegativeFloat = Annotated[float, Ge(0)]
"""A finite number, 0 or above."""
Fraction = Annotated[float, Ge(0), Le(1)]
"""A number from 0 to 1, both included."""
ImportPath = Annotated[str, StringConstraints(pattern=r"^[\w.]+:[\w.]+$")]
"""Import path of an object of one's own, `package.module:Name`."""

NonEmptyText = Annotated[str, MinLen(1)]
"""A text of at least one character."""


def _ascending(schedule: float | tuple[tuple[int, float], ...]) -> float | tuple[tuple[int, float], ...]:
    if isinstance(schedule, tuple):
        steps = [env_steps for env_steps, _ in schedule]
        if not steps:
            raise ValueError("a schedule needs at least one point [env_steps, value]")
        if any(later <= earlier for earlier, later in itertools.pairwise(steps)):
            raise ValueError(f"the env_steps of a schedule's points must ascend, not {steps}")
    return schedule


Schedule = Annotated[
    NonNegativeFloat | tuple[tuple[NonNegativeInt, NonNegativeFloat], ...],
    AfterValidator(_ascending),
]
"""A number that may change with the env steps: a constant, or points ``[[env_steps, value], ...]`` joined by straight
lines and constant outside them. Never negative."""


class _Explaining(ModelMetaclass):
    """Makes a config's constructor raise SpecError, as `ConfigModel.parse` does."""

    def __call__(self, **values: Any) -> Any:
        try:
            return super().__call__(**values)
        except ValidationError as error:
            raise SpecError(problems_of(cast("type[ConfigModel]", self).mistakes(error))) from None


class ConfigModel(BaseModel, metaclass=_Explaining):
    """A frozen config that refuses what it does not know and explains every mistake.

    Subclasses list their fields with a default and a docstring under each; the docstrings become commented YAML, the
    JSON Schema and the documentation. Rules across fields are model validators that raise ValueError. `defaults` gives
    inherited fields other defaults, `fixed` takes them away. A mapping that is given for a section, a field whose
    default is a config, says what is different from that default.
    """

    refused: ClassVar[Mapping[str, str]] = {}
    """Why settings are refused that its bases have, by name."""

    fixed_fields: ClassVar[Mapping[str, FieldInfo]] = {}
    """What the settings are that `fixed` has taken away, by name; their values are attributes of the class."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _ease(cls, data: Any) -> Any:
        """Turns lists into tuples, floats without fraction into whole numbers, and sections into whole ones."""
        if not isinstance(data, Mapping):
            return data
        fields = cls.model_fields
        return {key: _eased(fields[key], value) if key in fields else value for key, value in data.items()}

    @classmethod
    def __pydantic_init_subclass__(cls, **arguments: Any) -> None:
        """Takes away what a base class has fixed, which pydantic has found again among its annotations."""
        super().__pydantic_init_subclass__(**arguments)
        bases = [vars(base).get("refused", {}) for base in reversed(cls.__mro__)]
        refused = {name: reason for reasons in bases for name, reason in reasons.items()}
        if refused:
            cls.refused = refused
            _take_away(cls, refused)

    @classmethod
    def parse(cls, data: Any, *, path: str = "") -> Self:
        """Makes a config from plain data.

        Args:
            data: A mapping of field names, or whatever else the class takes (an env may be a bare id).
            path: Where the data stands inside a spec, put before the path of each problem.

        Raises:
            SpecError: With every mistake at once, in words of ours.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise SpecError(problems_of(cls.mistakes(error), path)) from None

    @classmethod
    def mistakes(cls, error: ValidationError) -> list[Mistake]:
        """Lists what was wrong in data that did not validate, in words of ours."""
        found = mistakes_of(error, cls)
        return [replace(mistake, message=cls._why_gone_at(mistake) or mistake.message) for mistake in found]

    @classmethod
    def _why_gone_at(cls, mistake: Mistake) -> str:
        section = config_in(annotation_at(cls, mistake.location[:-1])) if mistake.at_key else None
        if section is None:
            return ""
        name = str(mistake.location[-1])
        return section.why_gone(name) or unknown_key(name, section.model_fields)

    @classmethod
    def why_gone(cls, name: str) -> str:
        """Says that a setting is refused, or what a former or foreign one is called here; "" if none of it is so."""
        if name in cls.refused:
            return f"{shown(name)} cannot be set here: {cls.refused[name]}"
        if name not in cls.model_fields and RENAMED_SETTINGS.get(name) in cls.model_fields:
            return f"{shown(name)} is called {shown(RENAMED_SETTINGS[name])} here"
        return "" if name in cls.model_fields else ours_for(name, [cls.has_setting], cls.model_fields)

    @classmethod
    def has_setting(cls, name: str) -> bool:
        """Whether there is a setting of a dotted name."""
        first, _, rest = name.partition(".")
        if first not in cls.model_fields or not rest:
            return first in cls.model_fields
        section = cls.model_fields[first].annotation
        return is_config(section) and section.has_setting(rest)

    @classmethod
    def parse_earlier(cls, data: Mapping[str, Any], *, path: str = "") -> Self:
        """Makes a config from what `to_data` of an earlier version returned, in which settings had their former names.

        What is fixed by now is left out.

        Raises:
            SpecError: With every mistake at once, in words of ours.
        """
        return cls.parse(_in_present_names(cls, data), path=path)

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some fields changed and everything validated again.

        A mapping for a section changes what it names of the present section.

        Raises:
            SpecError: If a change is not valid.
        """
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return self.parse({**values, **(self.model_extra or {}), **self.merged(changes)})

    def to_data(self) -> dict[str, Any]:
        """Returns plain data (mappings, lists, texts, numbers) from which `parse` makes an equal config."""
        return self.model_dump(mode="json")

    def merged(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what data says, and beside it what this config was made with."""
        result = {name: getattr(self, name) for name in self.model_fields_set}
        for key, value in data.items():
            section = result.get(key)
            if isinstance(section, ConfigModel) and isinstance(value, Mapping):
                value = section.merged(value)
            result[key] = value
        return result


Model = TypeVar("Model", bound=ConfigModel)


def is_config(annotation: Any) -> TypeGuard[type[ConfigModel]]:
    """Whether an annotation is a config class."""
    return isinstance(annotation, type) and issubclass(annotation, ConfigModel)


def config_in(annotation: Any) -> type[ConfigModel] | None:
    """Returns the config class that an annotation is, or the first one of its union; None if there is none."""
    is_union = get_origin(annotation) in (Union, types.UnionType)
    return next(filter(is_config, get_args(annotation) if is_union else (annotation,)), None)


def defaults(**values: Any) -> Callable[[type[Model]], type[Model]]:
    """Gives settings that a config class inherits other defaults, which are checked like any values.

    A mapping for a section changes what it names of the section's inherited default.

    Examples:
        >>> class Rung(ConfigModel):
        ...     width: PositiveInt = 3
        >>> @defaults(width=4)
        ... class WideRung(Rung):
        ...     pass
        >>> WideRung().width
        4

    Raises:
        SpecError: While the class is made, if there is no such setting or it does not take the value.
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
    """Takes settings away from a config class that inherits them, since only one value of each makes sense there.

    Code reads that value as if it were set; whoever sets it is told the reason.

    Args:
        reason: Why, to stand behind "cannot be set here: ".
        values: The values.

    Raises:
        SpecError: While the class is made, if there is no such setting or it does not take the value.
    """

    def change(model: type[Model]) -> type[Model]:
        checked = model.parse(values, path=model.__name__)
        for name in values:
            setattr(model, name, getattr(checked, name))
        model.refused = {**model.refused, **dict.fromkeys(values, reason)}
        _take_away(model, values)
        return model

    return change


def _take_away(model: type[ConfigModel], names: Iterable[str]) -> None:
    there = [name for name in names if name in model.model_fields]
    taken = {name: model.model_fields.pop(name) for name in there}
    model.fixed_fields = {**taken, **model.fixed_fields}  # found again in a derived class it lacks its constraints
    model.model_rebuild(force=True)


def _in_present_names(model: type[ConfigModel], data: Mapping[str, Any]) -> dict[str, Any]:
    result = {}
    for name, value in data.items():
        if name in model.refused:
            continue
        if name not in model.model_fields:
            name = RENAMED_SETTINGS.get(name, name)
        section = model.model_fields[name].annotation if name in model.model_fields else None
        result[name] = _in_present_names(section, value) if is_config(section) and isinstance(value, Mapping) else value
    return result


def _eased(field: FieldInfo, value: Any) -> Any:
    """Returns a value in the form its field wants; of a section all that it does not leave to the section's class."""
    if isinstance(field.default, ConfigModel) and isinstance(value, Mapping):
        return field.default.merged(value)
    return _fit(field.annotation, value)


def _fit(annotation: Any, value: Any) -> Any:
    """Returns a value in the form its annotation wants, where YAML has no way to write that form."""
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
