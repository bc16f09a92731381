"""JSON form of elements of spaces: numbers, lists of them, objects for Dict spaces and lists for Tuple spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Space

from rlrun.data.tree import leaves, map_tree
from rlrun.envs.spaces import Misfit, Tree, empty_batch, row_writer

_SUBJECT = "the observation"
"""Subject of the messages of `Misfit`."""


def batch_from_json(space: Space[Any], elements: Sequence[Any], subject: str = _SUBJECT) -> Tree:
    """Converts elements in JSON form to a batch of the space, a tree of arrays [N, ...].

    Bounds of real numbers are not checked, as for observations of envs.

    Args:
        space: The space.
        elements: Any plain data.
        subject: What the elements are, for messages.

    Raises:
        Misfit: An element is not in the space; the message names it, and its part.
    """
    batch = empty_batch(space, len(elements))
    write = row_writer(space, batch)
    for row, element in enumerate(elements):
        named = f"{subject} {row}" if len(elements) > 1 else subject
        try:
            with np.errstate(over="raise"):
                write(row, element)
        except Misfit as error:
            raise Misfit(str(error).replace(_SUBJECT, named, 1)) from None
        except (FloatingPointError, OverflowError):
            raise Misfit(f"{named} holds a number that is too large for {space}") from None
    return batch


def batch_to_json(batch: Tree) -> list[Any]:
    """Converts a batch, a tree of arrays [N, ...], to N elements in JSON form.

    Examples:
        >>> batch_to_json({"gear": np.array([3, 1]), "wheel": np.array([[0.5], [-0.5]])})
        [{'gear': 3, 'wheel': [0.5]}, {'gear': 1, 'wheel': [-0.5]}]
    """
    lists = map_tree(lambda leaf: np.asarray(leaf).tolist(), batch)
    if isinstance(lists, list):
        return lists
    return [map_tree(lambda leaf, row=row: leaf[row], lists) for row in range(len(leaves(lists)[0]))]
