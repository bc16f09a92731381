"""Error messages for configs: descriptions of allowed values, and translation of pydantic's validation errors.

`describe` formats the allowed values of a type annotation ("a number > 0"). `mistakes_of` converts a pydantic
validation error to one mistake per wrong value; for a union, only the member that the user probably meant is reported.
Both depend only on type annotations.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin, get_type_hints

import annotated_types
import pydantic
from pydantic.fields import FieldInfo

from rlrun.engine.messages.errors import MANY_NAMES, Problem, did_you_mean

Location = tuple[str | int, ...]
"""Location of a value inside a config: keys of mappings and indices of lists, outermost first."""

_SCALARS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_PLURALS = {int: "whole numbers", float: "numbers", bool: "true or false values", str: "texts"}
_NOT_EMPTY = "that is not empty"
# Booleans of YAML 1.1 that are strings in YAML 1.2.
_YAML_1_1_BOOLEANS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


@dataclass(frozen=True)
class Mistake:
    """Wrong value or key in a config, with location and message.

    Attributes:
        location: Keys and list indices that lead from the config to the value.
        message: Explanation of the mistake.
        at_key: Whether the key is at fault (an unknown name), not its value.
    """

    location: Location
    message: str
    at_key: bool = False


def dotted(location: Iterable[str | int], prefix: str = "") -> str:
    """Formats a location (keys and list indices) as a dotted path for messages.

    Examples:
        >>> dotted(("config", "hiddens", 0), "cartpole-ppo")
        'cartpole-ppo.config.hiddens.0'
    """
    return ".".join(str(part) for part in (prefix, *location) if part != "")


def problems_of(mistakes: Iterable[Mistake], path: str = "") -> list[Problem]:
    """Converts mistakes in a config to problems, which name each wrong value by its dotted path in the spec.

    Args:
        mistakes: Mistakes in a config.
        path: Dotted path of the config inside the spec, prepended to each problem's path.
    """
    return [Problem(dotted(mistake.location, path), mistake.message) for mistake in mistakes]


def mistakes_of(error: pydantic.ValidationError, model: type[pydantic.BaseModel]) -> list[Mistake]:
    """Converts a pydantic validation error to mistakes with locations: unknown keys first, the rest in field order."""
    errors = [
        {"type": line["type"], "loc": line["loc"], "input": line["input"], "ctx": line.get("ctx", {})}
        for line in error.errors(include_url=False)
    ]
    return list(dict.fromkeys(_mistakes(errors, model, ())))


def shown(value: Any) -> str:
    """Formats a value for a message: strings in quotes, other values as in YAML, long values truncated.

    Examples:
        >>> shown("abc"), shown(True), shown(None), shown({"a": 1})
        ("'abc'", 'true', 'null', 'a mapping')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        text = "[" + ", ".join(shown(item) for item in value) + "]"
        return text if len(text) <= 40 else "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:56] + "..." + text[0] * (text[0] in "'\"")


class UnknownKey(ValueError):
    """Error that a validator raises for an unknown key; its text is the complete message."""


def unknown_name(name: str, allowed: Iterable[str], what: str, *, guess: bool = True) -> str:
    """Returns the error message for an unknown name, with the most similar valid name or, if few, all valid names.

    Args:
        name: The unknown name.
        allowed: The valid names.
        what: Beginning of the message, before the name.
        guess: Whether to suggest the most similar valid name.

    Examples:
        >>> unknown_name("asah", ["asha", "pbt"], "unknown scheduler")
        "unknown scheduler 'asah'; did you mean 'asha'?"
        >>> unknown_name("speed", ["asha", "pbt"], "unknown scheduler")
        "unknown scheduler 'speed'; must be one of: asha, pbt"
    """
    names = sorted(allowed)
    hint = did_you_mean(name, names) if guess else ""
    if not hint and 0 < len(names) <= MANY_NAMES:
        hint = f"; must be one of: {', '.join(names)}"
    return f"{what} {shown(name)}{hint}"


def describe(annotation: Any, constraints: Sequence[Any] = ()) -> str:
    """Describes the values that a type annotation accepts, in words that follow "must be" in messages.

    Args:
        annotation: A type annotation of a field.
        constraints: Bounds and lengths that pydantic stores separately from the annotation.

    Examples:
        >>> describe(int), describe(Literal["relu", "tanh"]), describe(tuple[int, ...] | None)
        ('a whole number', "'relu' or 'tanh'", 'a list of whole numbers or null')
    """
    annotation, constraints = _bare(annotation, constraints)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if _is_union(annotation):
        members = [part for member in arguments for part in _alternatives(member, constraints) if part != "null"]
        return _either(list(dict.fromkeys([*members, *(["null"] * (types.NoneType in arguments))])))
    if annotation in _SCALARS:
        kind = _SCALARS[annotation] + _bounds(constraints)
        return kind.replace(f"text {_NOT_EMPTY}", "non-empty text")
    if origin is Literal:
        return _either(_alternatives(annotation, constraints))
    if annotation is types.NoneType or annotation is None:
        return "null"
    if origin in (tuple, list) or annotation in (tuple, list):
        return _describe_list(arguments, constraints)
    if origin is dict or annotation is dict or is_model(annotation):
        return "a mapping (key: value)"
    return "a valid value"


def _alternatives(annotation: Any, constraints: Sequence[Any]) -> list[str]:
    """Describes the values that a member of a union accepts: each choice of a Literal or bool, or else one text."""
    if get_origin(annotation) is Literal:
        return [shown(choice) for choice in get_args(annotation)]
    if annotation is bool:
        return ["true", "false"]
    return [describe(annotation, constraints)]


def _either(choices: Sequence[str]) -> str:
    """Joins alternatives with commas and a final "or".

    Examples:
        >>> _either(["'a'"]), _either(["'a'", "null"]), _either(["'a'", "'b'", "null"])
        ("'a'", "'a' or null", "'a', 'b' or null")
    """
    *first, last = choices
    return f"{', '.join(first)} or {last}" if first else last


def is_model(annotation: Any) -> TypeGuard[type[pydantic.BaseModel]]:
    """Whether a type annotation is a pydantic model class, such as a config class."""
    return isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel)


def annotation_at(annotation: Any, location: Location) -> Any:
    """Returns the type annotation of a nested value, given its location below an outer annotation; `Any` if unknown.

    A union resolves to its first member that can hold the next key or index.
    """
    if not location:
        return annotation
    annotation, _ = _bare(annotation, ())
    if _is_union(annotation):
        below = (annotation_at(member, location) for member in get_args(annotation))
        return next((found for found in below if found is not Any), Any)
    return annotation_at(_annotation_of(annotation, location[0]), location[1:])


def _mistakes(errors: list[dict[str, Any]], annotation: Any, location: Location) -> list[Mistake]:
    """Converts pydantic's errors at or below one value to mistakes; each error's "loc" is relative to the value."""
    expected = describe(annotation)
    annotation, _ = _bare(annotation, ())
    if _is_union(annotation):
        members = [member for member in get_args(annotation) if member is not types.NoneType]
        if len(members) > 1 and all(error["loc"] for error in errors):
            return _union_mistakes(errors, annotation, members, location)
        annotation, _ = _bare(members[0], ())
    found: list[Mistake] = []
    below: dict[str | int, list[dict[str, Any]]] = {}
    for error in errors:
        if error["loc"] and not _is_about_container(error):
            below.setdefault(error["loc"][0], []).append({**error, "loc": error["loc"][1:]})
        else:
            found.append(_value_mistake(error, annotation, expected, location))
    for step, group in below.items():
        found += _mistakes(group, _annotation_of(annotation, step), (*location, step))
    return found


def _is_about_container(error: dict[str, Any]) -> bool:
    """Whether an error at a key is about the enclosing container: an unknown or a missing key."""
    return len(error["loc"]) == 1 and error["type"] in ("missing", "extra_forbidden", "invalid_key")


def _value_mistake(error: dict[str, Any], annotation: Any, expected: str, location: Location) -> Mistake:
    """Converts a pydantic error about a value itself, or about one of its keys, to a mistake."""
    kind, value, below = error["type"], error["input"], error["loc"]
    if kind == "extra_forbidden":
        names = list(annotation.model_fields) if is_model(annotation) else []
        return Mistake((*location, *below), unknown_name(str(below[0]), names, "unknown key"), at_key=True)
    if kind == "missing" and is_model(annotation):
        example = next(iter(annotation.model_fields[str(below[0])].examples or ()), None)
        hint = "" if example is None else f"; for example, {json.dumps(example)}"
        return Mistake((*location, *below), f"is missing{hint}")
    if kind in ("value_error", "assertion_error"):
        reason = error["ctx"]["error"]
        return Mistake(location, str(reason), at_key=isinstance(reason, UnknownKey))
    if kind in ("too_long", "too_short") and isinstance(value, Mapping):
        return Mistake(location, f"must have one key, not {len(value)}")
    if kind == "finite_number":
        expected = expected.replace("a number", "a finite number", 1)
    return Mistake(location, f"must be {expected}, not {shown(value)}{_hint(value, [annotation])}")


_OTHER_MEMBER = ("_type", "literal_error", "pattern_mismatch")
"""Suffixes of pydantic error types that indicate that a value was intended for another member of a union."""


def _union_mistakes(
    errors: list[dict[str, Any]], annotation: Any, members: list[Any], location: Location
) -> list[Mistake]:
    """Mistakes in a value of a union type: those for the intended member, else one mistake for all members.

    Pydantic prefixes each error with a label of its member; the labels come in the members' order. If several members
    may be intended, the one with the fewest errors is chosen.
    """
    labels = list(dict.fromkeys(error["loc"][0] for error in errors))
    intended = []
    for label, member in zip(labels, members, strict=False):
        mine = [{**error, "loc": error["loc"][1:]} for error in errors if error["loc"][0] == label]
        if all(error["loc"] or not error["type"].endswith(_OTHER_MEMBER) for error in mine):
            intended.append((mine, member))
    if intended:
        return _mistakes(*min(intended, key=lambda of_member: len(of_member[0])), location)
    value = errors[0]["input"]
    return [Mistake(location, f"must be {describe(annotation)}, not {shown(value)}{_hint(value, members)}")]


def _describe_list(arguments: tuple[Any, ...], constraints: Sequence[Any]) -> str:
    if not arguments:
        return "a list"
    if len(arguments) > 1 and arguments[1] is not Ellipsis:
        return f"[{', '.join(describe(argument) for argument in arguments)}]"
    least = next((c.min_length for c in constraints if isinstance(c, annotated_types.MinLen)), 0)
    item, item_constraints = _bare(arguments[0], ())
    items = f"{_PLURALS[item]}{_bounds(item_constraints)}" if item in _PLURALS else describe(item, item_constraints)
    items = items.replace(f"texts {_NOT_EMPTY}", "non-empty texts")
    if items.startswith("["):
        items = f"pairs {items}" if items.count(", ") == 1 else f"lists {items}"
    return f"a list of {f'at least {least} ' if least else ''}{items}"


def _bounds(constraints: Sequence[Any]) -> str:
    low, high = "", ""
    for constraint in constraints:
        match constraint:
            case annotated_types.Gt(gt=bound):
                low = f"> {bound}"
            case annotated_types.Ge(ge=bound):
                low = f">= {bound}"
            case annotated_types.Lt(lt=bound):
                high = f"< {bound}"
            case annotated_types.Le(le=bound):
                high = f"<= {bound}"
            case annotated_types.MinLen(min_length=1):
                low = _NOT_EMPTY
            case pydantic.StringConstraints(pattern=pattern) if pattern is not None:
                low = "like package.module:Name"
    return "".join([f" {low}" if low else "", " and" if low and high else "", f" {high}" if high else ""])


def _bare(annotation: Any, constraints: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Removes `Annotated` from a type annotation; returns the bare annotation and all constraints."""
    found = list(constraints)
    while get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
        for item in metadata:
            found += item.metadata if isinstance(item, FieldInfo) else [item]
    return annotation, found


def full_annotation(field: FieldInfo) -> Any:
    """Returns the type annotation of a pydantic field with its constraints, which pydantic stores separately."""
    annotation: Any = field.annotation
    for constraint in field.metadata:
        annotation = Annotated[annotation, constraint]
    return annotation


def _annotation_of(annotation: Any, step: str | int) -> Any:
    """Returns the type annotation one level down, at a key or index, with constraints."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if is_model(annotation):
        if step in annotation.model_fields:
            return full_annotation(annotation.model_fields[step])
        extra = get_type_hints(annotation).get("__pydantic_extra__")
        return get_args(extra)[1] if get_origin(extra) is dict else Any
    if origin in (tuple, list) and isinstance(step, int):
        return _item(arguments, step)
    return arguments[1] if origin is dict else Any


def _item(arguments: tuple[Any, ...], index: int) -> Any:
    if len(arguments) > 1 and arguments[1] is not Ellipsis:
        return arguments[index] if index < len(arguments) else Any
    return arguments[0]


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _hint(value: Any, annotations: Iterable[Any]) -> str:
    """Returns the hint "; did you mean ...?" for a text that resembles one of a field's choices; "" if none does."""
    if not isinstance(value, str):
        return ""
    bare = [_bare(annotation, ())[0] for annotation in annotations]
    if bool in bare and value.lower() in _YAML_1_1_BOOLEANS:
        return f"; did you mean {_YAML_1_1_BOOLEANS[value.lower()]}?"
    choices = [choice for annotation in bare if get_origin(annotation) is Literal for choice in get_args(annotation)]
    return did_you_mean(value, [choice for choice in choices if isinstance(choice, str)])
