"""Trees of arrays: nested observations and actions of Gymnasium's Dict and Tuple spaces.

A tree is a leaf, a dict of trees (keys sorted, as in Gymnasium) or a tuple of trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def map_tree(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Maps a function over the leaves of one tree, or of several trees with equal structure.

    Examples:
        >>> map_tree(lambda x, y: x + y, {"a": 1, "b": (2, 3)}, {"a": 10, "b": (20, 30)})
        {'a': 11, 'b': (22, 33)}
    """
    if isinstance(tree, dict):
        return {key: map_tree(function, value, *(other[key] for other in others)) for key, value in tree.items()}
    if isinstance(tree, tuple):
        return tuple(map_tree(function, value, *(other[i] for other in others)) for i, value in enumerate(tree))
    return function(tree, *others)


def leaves(tree: Any) -> list[Any]:
    """Returns the leaves of a tree, left to right, as a list."""
    if isinstance(tree, dict):
        return [leaf for part in tree.values() for leaf in leaves(part)]
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in leaves(part)]
    return [tree]


def named_leaves(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields pairs (path, leaf) of a tree's leaves, from left to right.

    Paths look like ``camera/left`` or ``0/1``; a bare leaf has the path "".
    """
    if isinstance(tree, dict | tuple):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for key, value in items:
            yield from named_leaves(value, f"{prefix}/{key}" if prefix else str(key))
    else:
        yield prefix, tree
