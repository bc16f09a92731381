"""Search spaces for hyperparameters in a spec: grids and distributions.

A search space is a mapping with one key, its kind: ``{grid_search: [1e-3, 3e-4]}``, ``{uniform: [0.9, 0.999]}``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlrun.engine.messages.errors import did_you_mean
from rlrun.engine.messages.explain import Location, Mistake, shown

if TYPE_CHECKING:
    import numpy as np

GOLDEN = 0.6180339887  # irrational, so that the point at this fraction of a range is not a whole number
LARGEST = 2**53
"""Largest integer allowed in a search space; floats represent all smaller integers exactly."""


@dataclass(frozen=True)
class Kind:
    """Kind of search space (grid, choice or a distribution): argument names and sampling function.

    Attributes:
        name: Name of the kind in a spec.
        parameters: Names of the numeric arguments; empty for a list of choices.
        draw: Function that samples a value, given a random generator and the arguments.
        meaning: One sentence for messages, documentation and the JSON Schema.
        whole: Whether arguments and samples are integers.
        positive: Whether the lower bound must be positive, for logarithmic scales.
    """

    name: str
    parameters: tuple[str, ...]
    draw: Callable[..., Any]
    meaning: str
    whole: bool = False
    positive: bool = False

    @property
    def usage(self) -> str:
        """Syntax of this kind of search space in a spec."""
        return f"{self.name}: [{', '.join(self.parameters) if self.parameters else 'value, value, ...'}]"


@dataclass(frozen=True)
class SearchSpace:
    """Search space for one setting: a kind with arguments.

    Attributes:
        kind: Kind of search space.
        arguments: The listed choices, or the numeric arguments of the kind.
    """

    kind: Kind
    arguments: tuple[Any, ...]

    @property
    def is_grid(self) -> bool:
        """Whether this space is a grid search, in which every value gets trials, rather than a random space."""
        return self.kind.name == "grid_search"

    def probes(self) -> Iterator[tuple[Location, Any]]:
        """Yields test values that the setting must accept, each with its location within the search space.

        For a list of choices, these are all of them. For other spaces, they are the two bounds and a value in between;
        this value has the location of the space itself.
        """
        name, arguments = self.kind.name, self.arguments
        if not self.kind.parameters:
            yield from (((name, index), value) for index, value in enumerate(arguments))
            return
        if name == "normal":
            yield (name, 0), arguments[0]
            yield (), arguments[0] + arguments[1] * GOLDEN
            return
        low, high = arguments[:2]
        yield (name, 0), low
        yield (name, 1), high - 1 if name in ("randint", "lograndint") else high
        if len(arguments) == 3:
            first, last = multiples(low, high, arguments[2])
            yield (), multiple(min(first + 1, last), arguments[2])
        elif not self.kind.whole:
            yield (), low + (high - low) * GOLDEN

    def draw(self, generator: np.random.Generator) -> Any:
        """Samples a value from this search space."""
        return self.kind.draw(generator, *self.arguments)

    def fitted(self, value: float) -> float:
        """Projects a number onto the search space by clipping (except for normal distributions) and quantization."""
        if self.kind.name == "normal":
            return value
        low, high = self.arguments[:2]
        if len(self.arguments) == 3:
            first, last = multiples(low, high, self.arguments[2])
            return multiple(min(max(round(value / self.arguments[2]), first), last), self.arguments[2])
        return int(min(max(round(value), low), high - 1)) if self.kind.whole else min(max(value, low), high)

    def holds(self, value: Any) -> bool:
        """Whether a value lies in the search space (a listed choice, or within the bounds), ignoring quantization."""
        if not self.kind.parameters:
            return any(same(value, listed) for listed in self.arguments)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self.kind.name == "normal" or bool(self.arguments[0] <= value <= self.arguments[1])

    def to_data(self) -> dict[str, Any]:
        """Serializes the search space to a mapping as in a spec."""
        return {self.kind.name: list(self.arguments)}


def multiples(low: float, high: float, q: float) -> tuple[int, int]:
    """First and last integer k with low <= k * q <= high, where q is the quantization step, up to rounding errors."""
    return math.ceil(low / q - 1e-9), math.floor(high / q + 1e-9)


def multiple(k: int, q: float) -> float:
    """Multiple k * q of the quantization step q: an integer if q is an int, else without floating-point noise."""
    return k * q if isinstance(q, int) else float(f"{k * q:.12g}")


def _choice(generator: np.random.Generator, *values: Any) -> Any:
    return values[int(generator.integers(len(values)))]


def _uniform(generator: np.random.Generator, low: float, high: float) -> float:
    return float(generator.uniform(low, high))


def _loguniform(generator: np.random.Generator, low: float, high: float) -> float:
    return min(max(math.exp(generator.uniform(math.log(low), math.log(high))), low), high)


def _quniform(generator: np.random.Generator, low: float, high: float, q: float) -> float:
    first, last = multiples(low, high, q)
    return multiple(int(generator.integers(first, last + 1)), q)


def _qloguniform(generator: np.random.Generator, low: float, high: float, q: float) -> float:
    first, last = multiples(low, high, q)
    return multiple(min(max(round(_loguniform(generator, low, high) / q), first), last), q)


def _randint(generator: np.random.Generator, low: int, high: int) -> int:
    return int(generator.integers(low, high))


def _lograndint(generator: np.random.Generator, low: int, high: int) -> int:
    return min(int(_loguniform(generator, low, high)), high - 1)


def _normal(generator: np.random.Generator, mean: float, std: float) -> float:
    return float(generator.normal(mean, std))


_ENDS = ("low", "high")
_STEPS = ("low", "high", "q")
KINDS = {
    kind.name: kind
    for kind in (
        Kind("grid_search", (), _choice, "One trial per value."),
        Kind("choice", (), _choice, "One of the values."),
        Kind("uniform", _ENDS, _uniform, "A number between low and high."),
        Kind("quniform", _STEPS, _quniform, "A multiple of q from low to high."),
        Kind("loguniform", _ENDS, _loguniform, "A number between low and high, log-uniform.", positive=True),
        Kind("qloguniform", _STEPS, _qloguniform, "A multiple of q, approximately log-uniform.", positive=True),
        Kind("randint", _ENDS, _randint, "A whole number from low to high - 1.", whole=True),
        Kind("qrandint", _STEPS, _quniform, "A multiple of q from low to high, all whole numbers.", whole=True),
        Kind(
            "lograndint",
            _ENDS,
            _lograndint,
            "A whole number from low to high - 1, approximately log-uniform.",
            whole=True,
            positive=True,
        ),
        Kind("normal", ("mean", "std"), _normal, "A normally distributed number."),
    )
}
"""Kinds of search spaces by name."""

_DISTINCTIVE = [name for name in KINDS if name not in ("choice", "uniform", "normal")]


def is_search_space(value: Any) -> bool:
    """Whether a value is a search space: a mapping whose only key is the name of a kind."""
    return isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in KINDS


def find_spaces(data: Any, location: Location = ()) -> tuple[dict[Location, SearchSpace], list[Mistake]]:
    """Finds all search spaces in nested spec data.

    Args:
        data: Data of a spec.
        location: Location of the data in the spec, which is prefixed to all returned locations.

    Returns:
        The valid search spaces by location, and the mistakes in invalid ones.
    """
    if is_search_space(data):
        space, mistakes = _read(data, location)
        return ({location: space} if space else {}), mistakes
    spaces: dict[Location, SearchSpace] = {}
    mistakes = []
    for step, value in _items(data):
        found, wrong = find_spaces(value, (*location, step))
        spaces.update(found)
        mistakes += wrong
    return spaces, mistakes


def nearly_a_space(value: Any, *, free_form: bool) -> str:
    """Hint "; did you mean 'x'?" for a mapping that resembles a misspelled search space, else "".

    Args:
        value: A mapping found where another type of value is expected.
        free_form: Whether any mapping is allowed there (an env's kwargs), so that plain words such as ``choices`` are
            not reported as misspelled.
    """
    if not isinstance(value, Mapping) or len(value) != 1:
        return ""
    name, arguments = next(iter(value.items()))
    if not isinstance(arguments, list) or name in KINDS:
        return ""
    return did_you_mean(name, _DISTINCTIVE if free_form else KINDS)


def _read(data: Mapping[str, Any], location: Location) -> tuple[SearchSpace | None, list[Mistake]]:
    """Parses one search space; the result is the space, or all mistakes in the mapping."""
    name, arguments = next(iter(data.items()))
    kind, below = KINDS[name], (*location, name)
    if not isinstance(arguments, list):
        return None, [Mistake(below, f"must be a list ({kind.usage}), not {shown(arguments)}")]
    mistakes = [Mistake((*below, index), "a search space inside a search space") for index in _inner_spaces(arguments)]
    if not mistakes:
        mistakes = (_check_numbers if kind.parameters else _check_values)(kind, arguments, below)
    if mistakes:
        return None, mistakes
    return SearchSpace(kind, tuple(int(value) if kind.whole else value for value in arguments)), []


def _inner_spaces(arguments: Sequence[Any]) -> Iterator[int]:
    return (index for index, value in enumerate(arguments) if any(map(is_search_space, _nested_values(value))))


def _nested_values(value: Any) -> Iterator[Any]:
    yield value
    for _, below in _items(value):
        yield from _nested_values(below)


def _items(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _check_values(kind: Kind, arguments: list[Any], location: Location) -> list[Mistake]:
    if not arguments:
        return [Mistake(location, f"has no values ({kind.usage})")]
    return [
        Mistake((*location, index), f"{shown(value)} appears twice")
        for index, value in enumerate(arguments)
        if kind.name == "grid_search" and any(same(value, earlier) for earlier in arguments[:index])
    ]


def same(left: Any, right: Any) -> bool:
    """Whether two spec values are equal; unlike in Python, a boolean never equals a number."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _check_numbers(kind: Kind, arguments: list[Any], location: Location) -> list[Mistake]:
    if len(arguments) != len(kind.parameters):
        return [Mistake(location, f"takes {len(kind.parameters)} numbers ({kind.usage}), not {shown(arguments)}")]
    wanted = "a whole number below 2**53" if kind.whole else "a finite number"
    wrong = [
        Mistake((*location, index), f"{parameter} must be {wanted}, not {shown(value)}")
        for index, (parameter, value) in enumerate(zip(kind.parameters, arguments, strict=True))
        if not _is_number(value, whole=kind.whole)
    ]
    if wrong:
        return wrong
    first, second, *rest = arguments
    if kind.name == "normal":
        return [] if second > 0 else [Mistake((*location, 1), f"std must be > 0, not {shown(second)}")]
    if first >= second:
        return [Mistake(location, f"low ({shown(first)}) must be below high ({shown(second)})")]
    if kind.positive and first <= 0:
        return [Mistake((*location, 0), f"low must be > 0 for a log-uniform space, not {shown(first)}")]
    if rest and rest[0] <= 0:
        return [Mistake((*location, 2), f"q must be > 0, not {shown(rest[0])}")]
    if rest and max(abs(first), abs(second)) / rest[0] > LARGEST:
        return [Mistake((*location, 2), f"q ({shown(rest[0])}) is too small for the range {first} to {second}")]
    if rest and multiples(first, second, rest[0])[0] > multiples(first, second, rest[0])[1]:
        return [Mistake(location, f"there is no multiple of q ({shown(rest[0])}) from {first} to {second}")]
    return []


def _is_number(value: Any, *, whole: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if whole:
        return abs(value) <= LARGEST and value == int(value)
    return abs(value) <= sys.float_info.max / 2
