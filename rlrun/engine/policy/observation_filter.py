"""Observation normalization by running mean and variance (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import HISTORY, SampleBatch
from rlrun.engine.data.tree import map_tree, named_leaves
from rlrun.engine.data.views import is_viewed, shown, with_new_observation
from rlrun.engine.functional.moments import Moments

CLIP = 10.0
"""Clipping bound of normalized observations."""

EPSILON = 1e-8
"""Constant added to the variance before the square root."""


class ObservationFilter:
    """Normalizes observation vectors, including integer vectors, to mean 0 and variance 1.

    Statistics are loaded only together with weights, so that acting and learning use the same statistics for a
    fragment. Images and discrete entries are not normalized. Until the first statistics are loaded, observations pass
    through unchanged.

    Args:
        leaves: Observation entries and how each enters the network.
        is_on: Whether observations are normalized; otherwise they pass through unchanged.
        clip: Clipping bound of normalized observations.
    """

    def __init__(self, leaves: Any, *, is_on: bool = True, clip: float = CLIP) -> None:
        self.is_on = is_on
        self.clip = clip
        self._is_viewed, leaves = is_viewed(leaves), shown(leaves)
        names = {id(leaf): name for name, leaf in named_leaves(leaves)}
        self.names = map_tree(
            lambda leaf: f"observations/{names[id(leaf)]}" if is_on and leaf.is_normalized else "", leaves
        )
        self._scales: dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}

    def load(self, filters: Mapping[str, Moments]) -> None:
        """Replaces the means and variances used for normalization with newer ones, if `is_on`."""
        self._scales = {
            name: (
                filters[name].mean.astype(np.float32),
                (1 / np.sqrt(filters[name].variance + EPSILON)).astype(np.float32),
            )
            for _, name in named_leaves(self.names)
            if name in filters
        }

    def __call__(self, observations: Any) -> Any:
        """Normalizes a tree of observations, or of views, with any leading dimensions."""
        if not self.is_on:
            return observations
        tree = shown(observations) if self._is_viewed else observations
        if isinstance(self.names, str):
            tree = self._normalized(self.names, tree)
        else:
            tree = map_tree(self._normalized, self.names, tree)
        return with_new_observation(observations, tree) if self._is_viewed else tree

    def filter_fragment(self, batch: SampleBatch) -> None:
        """Normalizes, in place, a fragment's observations and the past steps that precede the fragment."""
        if not self.is_on:
            return
        batch["obs"] = self(batch["obs"])
        if "obs" in batch.get(HISTORY, {}):
            batch[HISTORY] = {**batch[HISTORY], "obs": self._before(batch[HISTORY]["obs"])}

    def _before(self, observations: Any) -> Any:
        """Normalizes a tree of observations that lacks the action mask, as in a fragment's history."""
        if isinstance(self.names, str):
            return self._normalized(self.names, observations)
        return map_tree(lambda column, name: self._normalized(name, column), observations, self.names)

    def _normalized(self, name: str, column: NDArray[Any]) -> NDArray[Any]:
        if not name:
            return column
        if name not in self._scales:
            # The dtype must not change when statistics arrive: updates are compiled for the first dtype.
            return column.astype(np.float32, copy=False)
        mean, scale = self._scales[name]
        normalized = column - mean
        normalized *= scale
        np.minimum(normalized, self.clip, out=normalized)
        np.maximum(normalized, -self.clip, out=normalized)
        return normalized.astype(np.float32, copy=False)

    def columns(self, observations: Any) -> dict[str, NDArray[Any]]:
        """Returns the normalized entries of raw observations, by the names of their running statistics."""
        found: dict[str, NDArray[Any]] = {}

        def put(name: str, column: NDArray[Any]) -> None:
            if name:
                found[name] = column

        map_tree(put, self.names, observations)
        return found

    def moments(self, observations: Any, filled: NDArray[np.bool_]) -> dict[str, Moments]:
        """Returns count, mean and variance of each observation entry in a fragment, over steps in the mask `filled`."""
        found: dict[str, Moments] = {}
        if not self.is_on:
            return found
        has_gaps = not filled.all()

        def measure(name: str, column: NDArray[Any]) -> None:
            if name:
                found[name] = Moments.of(column[filled], 1) if has_gaps else Moments.of(column, 2)

        map_tree(measure, self.names, observations)
        return found
