"""Data sets read through a policy's history views: frame stacks, past actions and past rewards of each row (NumPy)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.data.views import VIEW_FRAMES, VIEW_OBS, VIEW_PREV_ACTIONS, VIEW_PREV_REWARDS, split
from rlrun.engine.datasets.data_set import DataSet, Indices
from rlrun.engine.nn.observation_leaves import ObservationTree
from rlrun.engine.policy.action_spaces.action_space import ActionSpace
from rlrun.engine.policy.view_memory import padding_of

COLUMNS = {VIEW_FRAMES: "obs", VIEW_PREV_ACTIONS: "actions", VIEW_PREV_REWARDS: "rewards"}
"""Columns of a data set that the parts of a view are gathered from."""


class ViewedSet(DataSet):
    """Data set whose observations are read as history views, in the form that an acting policy sees.

    Views do not reach beyond the episode's first row; earlier entries are padding. Rows with final observations have
    views too.

    Args:
        data: The data set.
        leaves_of: Tree of `ObservationLeaf` that describes the view.
        action_space: The policy's own actions, which views hold.
    """

    def __init__(self, data: DataSet, leaves_of: ObservationTree, action_space: ActionSpace) -> None:
        super().__init__(data.folder, data.manifest)
        self._read = data._read  # files that are open stay so
        self._leaves = leaves_of
        self._action_space = action_space
        self._name = VIEW_FRAMES if VIEW_FRAMES in leaves_of else VIEW_OBS

    @override
    def rows(self, indices: Indices, names: Sequence[str] | None = None) -> SampleBatch:
        batch = super().rows(indices, names)
        return SampleBatch(batch, obs=self._viewed(batch["obs"], indices)) if "obs" in batch else batch

    def _viewed(self, observed: Any, rows: Indices) -> dict[str, Any]:
        """View of each row's observation, leaves [N, ...] or [N, K, ...]."""
        parts = split(observed, self._name)
        starts = self.episodes.starts
        firsts = starts[starts.searchsorted(rows, side="right") - 1]
        for name, nothing in padding_of(self._leaves, self._action_space, parts[self._name]).items():
            parts[name] = self._part(name, nothing, rows, firsts)
        return parts

    def _part(self, name: str, nothing: Any, rows: Indices, firsts: Indices) -> Any:
        """Values of one part of the view in the last rows up to each row, the oldest first, [N, K, ...].

        Args:
            name: The part. Frames include a row's own observation, actions and rewards are those before it.
            nothing: The part's padding, [K, ...].
            rows: Rows of the set, [N].
            firsts: First row of each row's episode, [N].
        """
        number = len(leaves(nothing)[0])
        reached = rows[:, None] - np.arange(number, 0, -1) + (name == VIEW_FRAMES)
        values = super().rows(np.maximum(reached, firsts[:, None]).ravel(), (COLUMNS[name],))[COLUMNS[name]]
        if name == VIEW_FRAMES:
            values = split(values, name)[name]
        elif name == VIEW_PREV_ACTIONS:
            values = self._action_space.from_env(values)
        is_before = reached < firsts[:, None]

        def padded(padding: Any, leaf: Any) -> Any:
            stacked = leaf.reshape(*reached.shape, *leaf.shape[1:]).astype(padding.dtype, copy=False)
            stacked[is_before] = padding[0]
            return stacked

        return map_tree(padded, nothing, values)
