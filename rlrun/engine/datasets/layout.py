"""Columns of a data set: their names, dtypes and shapes, and the conversion between trees of arrays and flat columns.

Each part of a nested observation or action has a separate column, named by its path: ``obs/camera``. One additional row
per episode holds the final observation; in this row `valid` is false, and actions, rewards and other numbers are 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.space_json import space_from_json, space_to_json
from rlrun.engine.data.space_kinds import known_kind, space_tree
from rlrun.engine.data.tree import map_tree, named_leaves

Columns = dict[str, NDArray[Any]]
"""Flat columns by name, each [N, ...]."""

UNKNOWN = -1
"""Weights version or seed of rows whose source did not record it."""


class ColumnForm(NamedTuple):
    """Dtype and shape of a column's entries."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()


STEP_COLUMNS: Mapping[str, ColumnForm] = {
    "rewards": ColumnForm(np.dtype(np.float64)),
    "terminateds": ColumnForm(np.dtype(np.bool_)),
    "truncateds": ColumnForm(np.dtype(np.bool_)),
    "valid": ColumnForm(np.dtype(np.bool_)),
    "weights_version": ColumnForm(np.dtype(np.int32)),
    "episode": ColumnForm(np.dtype(np.int64)),
    "seed": ColumnForm(np.dtype(np.int64)),
    "agent": ColumnForm(np.dtype(np.int32)),
}
"""Columns of every data set besides observations and actions. `agent` is an index into the manifest's `agents`."""

LOGP = "logp"
"""Column of the behavior policy's log-probabilities, exploration included, in the units of the stored actions.

For continuous actions they are log-densities; a coordinate clipped to its bound counts with the total probability of
all values clipped to this bound. `noisy` networks, `parameter_noise`, `ornstein_uhlenbeck`, `dagger`, `dreamer`,
`linucb`, `lints` and custom explorations do not record this column.
"""

LOGP_FORM = ColumnForm(np.dtype(np.float32))


class SetSpaces(NamedTuple):
    """Spaces of a data set's observations and actions."""

    observation: gymnasium.Space[Any]
    action: gymnasium.Space[Any]

    def to_json(self) -> dict[str, Any]:
        """Converts the observation and action space to their JSON form."""
        return {name: space_to_json(space) for name, space in self._asdict().items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SetSpaces:
        """Restores the spaces from the data of `to_json()`.

        Raises:
            KeyError: A space is missing.
            ValueError: A space is malformed.
        """
        return cls(*(space_from_json(data[name]) for name in cls._fields))


def episode_rows(valid: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yields two row numbers for each episode in a file: its first step's row, and its final observation's row.

    Args:
        valid: Whether a row holds a step, [N]. Rows after the last final observation belong to an incomplete episode.

    Examples:
        >>> list(episode_rows(np.array([True, True, False, True, False, True])))
        [(0, 2), (3, 4)]
    """
    start = 0
    for end in np.flatnonzero(~valid).tolist():
        yield start, end
        start = end + 1


def column_forms(spaces: SetSpaces, further: Mapping[str, ColumnForm]) -> dict[str, ColumnForm]:
    """Returns dtypes and shapes of all columns of a data set by name, in the order in which the files store them.

    Args:
        spaces: Spaces of observations and actions.
        further: Dtypes and shapes of additional columns by name, beyond those that every data set has.

    Raises:
        ValueError: Two columns have the same name.
    """
    named = [
        *(named_forms("obs", spaces.observation).items()),
        *(named_forms("actions", spaces.action).items()),
        *STEP_COLUMNS.items(),
        *further.items(),
    ]
    forms = dict(named)
    if len(forms) < len(named):
        names = [name for name, _ in named]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the data set has two columns named '{twice}'")
    return forms


def named_forms(prefix: str, space: gymnasium.Space[Any]) -> dict[str, ColumnForm]:
    """Returns dtypes and shapes of the columns that store the parts of a space's elements, by column name.

    Examples:
        >>> sorted(named_forms("obs", gymnasium.spaces.Dict(x=gymnasium.spaces.Discrete(2))))
        ['obs/x']
    """
    forms: dict[str, ColumnForm] = {}
    for name, part in named_leaves(space_tree(space), prefix):
        shape, dtype = known_kind(part).form(part)
        if name in forms:
            raise ValueError(f"two parts of {space} have the path '{name.removeprefix(prefix).removeprefix('/')}'")
        forms[name] = ColumnForm(np.dtype(dtype), shape)
    return forms


def numeric_parts(prefix: str, space: gymnasium.Space[Any]) -> list[str]:
    """Returns the names of a space's columns that hold real numbers rather than discrete choices or bits."""
    parts = named_leaves(space_tree(space), prefix)
    return [name for name, part in parts if known_kind(part).meaning == "numbers"]


def as_tree(prefix: str, space: gymnasium.Space[Any], columns: Mapping[str, NDArray[Any]]) -> Any:
    """Converts flat columns, named by their paths, to a tree of arrays in the structure of a space."""
    parts = iter([columns[name] for name in named_forms(prefix, space)])
    return map_tree(lambda _: next(parts), space_tree(space))


def as_columns(prefix: str, tree: Any) -> Columns:
    """Flattens a tree of arrays (such as nested observations) to columns, named by their paths in the tree."""
    return {name: np.asarray(leaf) for name, leaf in named_leaves(tree, prefix)}
