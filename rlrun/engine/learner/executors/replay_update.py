"""Parameter updates in C that draw and read their minibatches from a replay buffer's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.kernels.library import library
from rlrun.engine.kernels.steps import COLUMN, Array, address, pointer
from rlrun.engine.learner.executors.c_update import CUpdate
from rlrun.engine.learner.update import Parameters

if TYPE_CHECKING:
    from rlrun.engine.learner.learner import TargetUpdates
    from rlrun.engine.replay.stores import Indices
    from rlrun.engine.replay.transition_reader import TransitionReader, UnreadMinibatches

TARGET = np.dtype([("target", "u8"), ("present", "u8"), ("size", "i8"), ("every", "i8"), ("tau", "f8")])
"""Dtype of the struct `Target` in `kernels.c`."""

LEARNING = np.dtype(
    [
        ("transitions", "u8"),
        ("columns", "u8"),
        ("steps", "u8"),
        ("results", "u8"),
        ("target", "u8"),
        ("num_columns", "i8"),
        ("num_steps", "i8"),
        ("num_totals", "i8"),
        ("indices", "u8"),
        ("following", "u8"),
        ("num_rows", "i8"),
    ]
)
"""Dtype of the struct `Learning` in `kernels.c`."""

WHOLE = 4
"""Kind of columns in `kernels.c` that hold separate rows for each minibatch, concatenated."""


class ReplayUpdate:
    """Parameter update that draws and reads minibatches from a replay buffer's memory, in one call into C.

    Args:
        update: The update in C kernels, for minibatches of `reader.read` followed by columns of noise.
        reader: Reader of the replay buffer's transitions.
        size: Number of transitions in a minibatch, S.
        noise: Columns of noise for one minibatch, by name.
        is_weighted: Whether minibatches include importance weights; otherwise all weights are 1.
        statistics: Names of the update's first results, which are summed over minibatches.
        parameters: Online and target parameters.
        target: Interval and rate of target network updates; None if the call does not update the target network.

    Attributes:
        reader: Reader of the replay buffer's transitions.
        size: Number of transitions in a minibatch, S.
        statistics: Names of the update's first results, which are summed over minibatches.
        target: Interval and rate of target network updates; None if the call does not update the target network.
    """

    def __init__(
        self,
        update: CUpdate,
        reader: TransitionReader,
        size: int,
        noise: Mapping[str, Array],
        *,
        is_weighted: bool,
        statistics: tuple[str, ...],
        parameters: Parameters,
        target: TargetUpdates | None,
    ) -> None:
        self.statistics = statistics
        self.reader, self.size, self.target = reader, size, target
        self._update = update  # with `reader`, keeps alive the memory that the tables point to
        bound, num_read = update.bound, len(reader.columns)
        first_other = bound.num_kept + num_read + len(noise)
        self._others = [(i - first_other, array) for i, array in bound.read if i >= first_other]
        leaves = [(i - bound.num_kept, array) for i, array in bound.read if i < first_other]
        self._columns = np.zeros(len(leaves), COLUMN)
        self._noise: list[tuple[int, str, Array]] = []
        self._weights: int | None = None
        for k, (leaf, array) in enumerate(leaves):
            if leaf < num_read:
                self._columns[k] = reader.columns[leaf]
            else:
                self._noise.append((k, list(noise)[leaf - num_read], array[None]))
            if is_weighted and leaf == reader.weights:
                self._weights = k
            if leaf >= num_read or k == self._weights:
                self._columns[k] = (0, 0, array.nbytes, WHOLE)
            self._columns["to"][k] = address(array)
        self._sources, self._room = self._columns["from"], 0
        self._make_room(1)
        self._drawn, self._following = np.empty((2, size), np.int64)
        own = parameters.target
        followed = (0, 0, 0, 0, 0.0)
        if target is not None and own is not None:
            memory = own.data_ptr(), parameters.flat.data_ptr()
            followed = (*memory, own.numel(), target.every, target.tau)
        self._followed = np.array(followed, TARGET)
        self._chosen: Indices | None = None
        self._results = bound.results[0]
        self._sums = np.zeros(len(statistics), np.float32)
        self._sums_at = address(self._sums)
        steps, num_steps = update.steps.arguments
        self._table = np.array(
            (
                address(reader.table),
                address(self._columns),
                steps.value,
                address(self._results),
                address(self._followed),
                len(leaves),
                num_steps.value,
                len(statistics),
                address(self._drawn),
                address(self._following),
                size,
            ),
            LEARNING,
        )
        self._arguments = pointer(self._table)
        self._learn = library().learn
        place, whole = ctypes.c_void_p, ctypes.c_int64
        self._learn.argtypes = (place, place, whole, whole, whole, place)

    def _make_room(self, count: int) -> None:
        """Allocates memory for the columns of noise of several minibatches."""
        self._room = count
        self._noise = [(k, name, np.empty((count, *room.shape[1:]), room.dtype)) for k, name, room in self._noise]
        for k, _, room in self._noise:
            self._sources[k] = address(room)

    def __call__(
        self,
        memory: UnreadMinibatches,
        count: int,
        noise: Sequence[Mapping[str, Array]],
        others: Sequence[Tensor],
        totals: NDArray[np.float32],
        seen: int,
    ) -> NDArray[np.float32]:
        """Draws and reads the next minibatches, and runs the update on each in turn.

        Args:
            memory: Source of the minibatches.
            count: Number of minibatches.
            noise: Columns of noise for each of these minibatches, by name.
            others: The update's arguments after the columns.
            totals: Running sums, to which the first results of each minibatch are added.
            seen: Number of minibatches since the last update of the target network.

        Returns:
            New priorities of the last minibatch's rows: the update's results after the summed ones; empty unless a
            sampler chose the rows.
        """
        bound = self._update.bound
        if bound.filled_with is not others:
            for i, array in self._others:
                np.copyto(array, others[i].numpy())
            bound.filled_with = others
        if count > self._room:
            self._make_room(count)
        for _, name, room in self._noise:
            for i, drawn in enumerate(noise):
                room[i] = drawn[name]
        if memory.weights is not None and self._weights is not None:
            self._sources[self._weights] = address(memory.weights)
        chosen = None
        if memory.chosen is not None:
            chosen = address(memory.chosen)
            self._chosen = memory.chosen[(count - 1) * memory.size : count * memory.size]
        self._sums[:] = totals
        self._learn(self._arguments, chosen, self.reader.streams.num_written, count, seen, self._sums_at)
        totals[:] = self._sums
        if count < memory.number:
            memory.drop(count)
        rest: NDArray[np.float32] = self._results[totals.size :]
        return rest[:0] if chosen is None else rest.copy()

    def last_batch(self) -> SampleBatch:
        """Returns the rows of the last minibatch as they are in the replay buffer now."""
        return self.reader.read(self._drawn if self._chosen is None else self._chosen)
