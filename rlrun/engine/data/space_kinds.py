"""Registry of the types of leaf spaces (all but Dict and Tuple): array form, bounds and network encoding of each.

Dict and Tuple are trees of other spaces. Each other type of space has one entry in `KINDS`, from which batches, checks
of observations and network encodings are derived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from numpy.typing import NDArray

from rlrun.engine.data.tree import map_tree

Meaning = Literal["numbers", "choices", "bits"]

ActionKind = Literal["Discrete", "MultiDiscrete", "MultiBinary", "Box", "bounded Box", "Dict", "Tuple"]
"""Kind of an action space; a bounded Box also counts as a Box."""


def own_form(space: Space[Any]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Returns the shape and dtype that a Gymnasium space declares for its elements."""
    return tuple(space.shape or ()), np.dtype(space.dtype)


def as_array(space: Space[Any], element: Any) -> NDArray[Any]:
    """Converts an element of a space to an array; an array is returned without a copy.

    Raises:
        ValueError: The element is ragged.
    """
    try:
        return np.asarray(element)
    except ValueError:
        raise ValueError("ragged: its rows differ in length") from None


class SpaceKind(NamedTuple):
    """Registry entry of a leaf space type.

    Attributes:
        meaning: Meaning of the numbers in an element, which determines how networks encode them: `numbers` (unchanged,
            scaled or as an image), `choices` (one-hot or learned vectors) or `bits` (0 and 1).
        bounds: Function that returns the lowest and highest values of a space, [*shape] or a single number for all
            entries.
        form: Function that returns shape and dtype of the array for one element of a space.
        array: Function that converts an element returned by an env to an array; raises ValueError for any other value.
    """

    meaning: Meaning
    bounds: Callable[[Any], tuple[Any, Any]]
    form: Callable[[Any], tuple[tuple[int, ...], np.dtype[Any]]] = own_form
    array: Callable[[Any, Any], NDArray[Any]] = as_array


KINDS: dict[type[Space[Any]], SpaceKind] = {
    Box: SpaceKind("numbers", lambda space: (space.low, space.high)),
    Discrete: SpaceKind("choices", lambda space: (space.start, space.start + space.n - 1)),
    MultiDiscrete: SpaceKind("choices", lambda space: (space.start, space.start + space.nvec - 1)),
    MultiBinary: SpaceKind("bits", lambda space: (0, 1)),
}


def kind_of(space: Any) -> SpaceKind | None:
    """Returns the registry entry of a leaf space's type, such as Box; None for an unsupported type."""
    return KINDS.get(type(space)) or next((kind for own, kind in KINDS.items() if isinstance(space, own)), None)


def known_kind(space: Space[Any]) -> SpaceKind:
    """Returns the registry entry of a leaf space's type, which must be supported."""
    kind = kind_of(space)
    assert kind is not None, space
    return kind


def kinds_in_words() -> str:
    """Returns a list of all supported types of spaces as text, for messages."""
    return f"{', '.join(kind.__name__ for kind in KINDS)}, and Dict and Tuple of these"


def action_kinds(space: Space[Any]) -> tuple[ActionKind, ...]:
    """Returns the kinds of action spaces to which a space belongs, most general first; empty if none is supported.

    Examples:
        >>> action_kinds(Discrete(2)), action_kinds(Box(-1, 1)), action_kinds(Box(-np.inf, np.inf))
        (('Discrete',), ('Box', 'bounded Box'), ('Box',))
    """
    match space:
        case Box() if np.issubdtype(space.dtype, np.floating):
            return ("Box", "bounded Box") if space.is_bounded() else ("Box",)
        case Discrete():
            return ("Discrete",)
        case MultiDiscrete():
            return ("MultiDiscrete",)
        case MultiBinary():
            return ("MultiBinary",)
        case Dict():
            return ("Dict",)
        case Tuple():
            return ("Tuple",)
    return ()


def space_tree(space: Space[Any]) -> Any:
    """Returns the leaf spaces of a (nested) Dict or Tuple space as a tree; a leaf space is returned unchanged."""
    if isinstance(space, Dict):
        return {key: space_tree(part) for key, part in space.items()}
    if isinstance(space, Tuple):
        return tuple(space_tree(part) for part in space)
    return space


def batched(space: Space[Any], *elements: Any) -> Any:
    """Stacks N elements of a space into a tree of arrays [N, ...] with the dtypes of the elements."""
    return map_tree(
        lambda part, *own: np.stack([known_kind(part).array(part, one) for one in own]), space_tree(space), *elements
    )


def choice_ranges(space: Space[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the number of values and the smallest value of each discrete choice in a space, in order."""
    kind = known_kind(space)
    shape, _ = kind.form(space)
    low, high = (np.broadcast_to(bound, shape).ravel().astype(np.int64) for bound in kind.bounds(space))
    return tuple((high - low + 1).tolist()), tuple(low.tolist())
