"""JSON form of elements of spaces: numbers, nested lists, objects for Dict spaces and lists for Tuple spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Dict, Tuple

from rlrun.engine.data.space_kinds import known_kind
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.envs.spaces import SpaceMismatch, Tree, empty_batch, row_writer

_SUBJECT = "the observation"
"""Subject of the messages of `SpaceMismatch`."""


def batch_from_json(space: Space[Any], elements: Sequence[Any], subject: str = _SUBJECT) -> Tree:
    """Converts elements in JSON form to a batch of the space, a tree of arrays [N, ...].

    Bounds of real numbers are not checked, just as they are not for observations that envs return.

    Args:
        space: The space.
        elements: Elements in JSON form, not yet validated.
        subject: Name of the elements in messages.

    Raises:
        SpaceMismatch: An element is not in the space; the message names the element and the part.
    """
    batch = empty_batch(space, len(elements))
    write = row_writer(space, batch)
    for row, element in enumerate(elements):
        named = f"{subject} {row}" if len(elements) > 1 else subject
        try:
            with np.errstate(over="raise"):
                write(row, element)
        except SpaceMismatch as error:
            raise SpaceMismatch(str(error).replace(_SUBJECT, named, 1)) from None
        except (FloatingPointError, OverflowError):
            raise SpaceMismatch(f"{named} contains a number that is too large for {space}") from None
    return batch


def action_batch_from_json(space: Space[Any], actions: Sequence[Any]) -> Tree:
    """Converts actions in JSON form to a batch, like `batch_from_json`, but refuses booleans as discrete choices.

    Raises:
        SpaceMismatch: An action is not in the space; the message names the action and the part.
    """
    batch = batch_from_json(space, actions, "the action")
    if any(_has_flag_as_choice(space, action) for action in actions):
        raise SpaceMismatch(f"the action contains true or false, but {space} needs whole numbers")
    return batch


def _has_flag_as_choice(space: Space[Any], action: Any) -> bool:
    """Whether an action has true or false in place of a discrete choice; NumPy would read these as 1 and 0."""
    if isinstance(space, Dict):
        return any(_has_flag_as_choice(part, action[key]) for key, part in space.items())
    if isinstance(space, Tuple):
        return any(_has_flag_as_choice(part, own) for part, own in zip(space, action, strict=True))
    return known_kind(space).meaning == "choices" and _holds_flag(action)


def _holds_flag(action: Any) -> bool:
    return any(map(_holds_flag, action)) if isinstance(action, list) else isinstance(action, bool)


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
