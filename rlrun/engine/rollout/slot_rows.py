"""Row buffers of a policy's fragment: observations [T + 1, B, ...] and the behavior policy's columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import CLOSING_COLUMNS, LOGGED, WORLD_STATE, SampleBatch
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.envs.spaces import empty_batch
from rlrun.engine.rollout.recorder import record_row
from rlrun.engine.rollout.worker_behavior import WorkerBehavior

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class RowForm:
    """Shapes and columns of a policy's fragment buffers.

    Attributes:
        behavior: The behavior policy.
        space: Space of observations.
        length: T, steps in a fragment.
        slots: B, number of slots.
        columns: Names of the info entries recorded as columns.
        marks_logged: Whether fragments have a column `LOGGED`, for actions not chosen by the policy.
    """

    behavior: WorkerBehavior
    space: gymnasium.Space[Any]
    length: int
    slots: int
    columns: Sequence[str]
    marks_logged: bool = False

    @cached_property
    def idle(self) -> Any:
        """Placeholder actions [B, ...] for slots without an acting agent."""
        return self.behavior.action_space.to_env(self.blank_fragment()["actions"][0])

    def blank_fragment(self) -> SampleBatch:
        """Allocates the columns of an empty fragment: zeros, and NaN for values."""
        batch = self.behavior.collector.allocate(self.length, self.slots)
        for name, column in batch.items():
            if name not in CLOSING_COLUMNS:
                for leaf in leaves(column):
                    leaf.fill(0)
        if self.marks_logged:
            batch[LOGGED] = np.zeros((self.length, self.slots), np.bool_)
        return batch


class RowBuffers:
    """Buffers of one fragment's rows, [T + 1, B, ...], including the closing row; empty rows are zeros.

    Args:
        form: Form of the rows.
        states: Global states of the worlds [W, ...]; None without global states.

    Attributes:
        batch: Columns of the behavior policy.
        observed: Observations, leaves [T + 1, B, ...].
        filled: Mask [T, B] of entries with an observation.
    """

    def __init__(self, form: RowForm, states: NDArray[Any] | None) -> None:
        length, slots = form.length, form.slots
        self.batch = form.blank_fragment()
        self.observed = map_tree(
            lambda leaf: np.zeros((length + 1, *leaf.shape), leaf.dtype), empty_batch(form.space, slots)
        )
        self.filled: Flags = np.zeros((length, slots), np.bool_)
        self._world_states: NDArray[Any] | None = None
        if WORLD_STATE in form.behavior.collector.world_columns:
            assert states is not None  # the policy was built for a world that has states
            self._slots_in_a_world = slots // len(states)
            self._world_states = np.zeros((length + 1, slots, *states.shape[1:]), states.dtype)
            self.batch[WORLD_STATE] = self._world_states

    def show_all(self, t: int, observations: Any, states: NDArray[Any] | None) -> None:
        """Writes all slots' observations (leaves [B, ...]) and the worlds' states [W, ...] into row t."""
        record_row(self.observed, t, observations)
        if self._world_states is not None:
            self._world_states[t] = self._of_slots(states)

    def show(self, rows: Any, slots: Any, observations: Any, states: NDArray[Any] | None) -> None:
        """Writes the observations of selected slots into the buffers.

        Args:
            rows: Target row, or one target row for each slot.
            slots: The slots, as a mask [B] or as indices.
            observations: Observations of all slots, leaves [B, ...].
            states: The worlds' states, [W, ...].
        """
        for leaf, observed in zip(leaves(self.observed), leaves(observations), strict=True):
            leaf[rows, slots] = observed[slots]
        if self._world_states is not None:
            self._world_states[rows, slots] = self._of_slots(states)[slots]

    def _of_slots(self, states: NDArray[Any] | None) -> NDArray[Any]:
        """Repeats the worlds' states [W, ...] for each slot, [B, ...]."""
        assert states is not None
        return np.repeat(states, self._slots_in_a_world, axis=0)
