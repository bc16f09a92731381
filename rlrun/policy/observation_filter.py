"""Normalisation of observations by running statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.tree import map_tree, named_leaves
from rlrun.functional.moments import Moments

CLIP = 10.0
"""Bound of a normalised observation."""

EPSILON = 1e-8
"""Added to the variance before its root is taken."""


class ObservationFilter:
    """Shifts and scales the vectors of observations to mean 0 and variance 1, those of integers too.

    The statistics change only when new ones are loaded, with the weights: what acted on a fragment is what learns from
    it. Images and choices pass as they are, and so does everything before the first statistics arrive.

    Args:
        leaves: The tree of `ObservationLeaf`.
        clip: Bound of a normalised number.
    """

    def __init__(self, leaves: Any, *, clip: float = CLIP) -> None:
        self.clip = clip
        names = {id(leaf): name for name, leaf in named_leaves(leaves)}
        self.names = map_tree(lambda leaf: f"observations/{names[id(leaf)]}" if leaf.is_normalized else "", leaves)
        self._scales: dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}

    def load(self, filters: Mapping[str, Moments]) -> None:
        """Takes new statistics."""
        self._scales = {
            name: (
                filters[name].mean.astype(np.float32),
                (1 / np.sqrt(filters[name].variance + EPSILON)).astype(np.float32),
            )
            for _, name in named_leaves(self.names)
            if name in filters
        }

    def __call__(self, observations: Any) -> Any:
        """Normalises a tree of observations with any leading dimensions."""
        if isinstance(self.names, str):
            return self._normalized(self.names, observations)
        return map_tree(self._normalized, self.names, observations)

    def before(self, observations: Any) -> Any:
        """Normalises a tree of observations without an action mask."""
        if isinstance(self.names, str):
            return self._normalized(self.names, observations)
        return map_tree(lambda column, name: self._normalized(name, column), observations, self.names)

    def _normalized(self, name: str, column: NDArray[Any]) -> NDArray[Any]:
        if not name:
            return column
        if name not in self._scales:
            # The type must not change when statistics arrive: an update is compiled for the first one it sees.
            return column.astype(np.float32, copy=False)
        mean, scale = self._scales[name]
        normalized = column - mean
        normalized *= scale
        np.minimum(normalized, self.clip, out=normalized)
        np.maximum(normalized, -self.clip, out=normalized)
        return normalized.astype(np.float32, copy=False)

    def columns(self, observations: Any) -> dict[str, NDArray[Any]]:
        """Returns the parts of raw observations that statistics are of, by name."""
        found: dict[str, NDArray[Any]] = {}

        def put(name: str, column: NDArray[Any]) -> None:
            if name:
                found[name] = column

        map_tree(put, self.names, observations)
        return found

    def moments(self, observations: Any, filled: NDArray[np.bool_]) -> dict[str, Moments]:
        """Returns the statistics of a fragment's observations [T, B, ...], where rows are filled [T, B], by name."""
        found: dict[str, Moments] = {}
        has_gaps = not filled.all()

        def measure(name: str, column: NDArray[Any]) -> None:
            if name:
                found[name] = Moments.of(column[filled], 1) if has_gaps else Moments.of(column, 2)

        map_tree(measure, self.names, observations)
        return found
