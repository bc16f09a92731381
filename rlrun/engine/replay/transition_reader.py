"""Sampling of a replay buffer's transitions by C kernels, in separate calls or as part of a parameter update."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.kernels.library import library
from rlrun.engine.kernels.steps import COLUMN, Array, address, pointer
from rlrun.engine.replay.stores import Indices, PlainStore
from rlrun.engine.replay.streams import Streams

TRANSITIONS = np.dtype(
    [
        ("generator", "u8"),
        ("ready", "u8"),
        ("lengths", "u8"),
        ("slots", "i8"),
        ("size", "i8"),
        ("gamma", "f8"),
    ]
)
"""Dtype of the struct `Transitions` in `kernels.c`."""

AT_STEP, AT_BOOTSTRAP, DISCOUNT, ONE = range(4)
"""Kinds of columns in `kernels.c`: rows at the step, rows at the bootstrap state, one-step discounts, ones."""

MOST_INDICES = 2**32 - 1
"""Maximum number of indices for which NumPy's generators draw integers from 32 bits, as `kernels.c` does."""


class TransitionReader:
    """Draws and reads the transitions of a replay buffer in C; bit-identical to `ReplayRing.draw` and `gather`.

    Args:
        stores: Storage of each column, by name; all parts are `PlainStore`.
        ready: Mask of the steps that can be sampled, [workers, rows, env slots].
        streams: Flat indexing of the buffer's entries.
        gamma: Discount factor of one-step transitions.
        generator: Random generator with which `draw` samples.

    Attributes:
        names: Names of the columns of `read`, in order.
        columns: Table for `kernels.c` that lists the arrays from which the columns of `read` are copied.
        streams: Flat indexing of the buffer's entries.
        weights: Index in `columns` of the importance weights, which are ones.
        table: The replay buffer, as a struct for `kernels.c`.
    """

    def __init__(
        self,
        stores: Mapping[str, Any],
        ready: Array,
        streams: Streams,
        gamma: float,
        generator: np.random.Generator,
    ) -> None:
        self.streams = streams
        self._generator = generator
        is_n_step = "steps" in stores
        rewards, discounts = (
            (stores["n_step_rewards"].values, stores["discounts"].values)
            if is_n_step
            else (stores["rewards"].values, stores["terminateds"].values)
        )
        made: list[tuple[int, Array]] = []

        def listed(kind: int, tree: Any) -> Any:
            def add(store: Any) -> int:
                made.append((kind, store.values if isinstance(store, PlainStore) else store))
                return len(made) - 1

            return map_tree(add, tree)

        self._trees = {
            "obs": listed(AT_STEP, stores["obs"]),
            "actions": listed(AT_STEP, stores["actions"]),
            "rewards": listed(AT_STEP, rewards),
            "discounts": listed(AT_STEP if is_n_step else DISCOUNT, discounts),
            "next_obs": listed(AT_BOOTSTRAP, stores["obs"]),
            "valid": listed(AT_STEP, stores["valid"]),
            "weights": listed(ONE, np.zeros((1, 1, 1), np.float32)),
        }
        self.names = tuple(self._trees)
        self.weights: int = self._trees["weights"]
        self._kept = [values for _, values in made]  # the table points to these arrays
        dtypes = [np.dtype(np.float32) if kind == DISCOUNT else values.dtype for kind, values in made]
        inner = [values.shape[3:] for _, values in made]
        sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in zip(dtypes, inner, strict=True)]
        # The widest numbers come first, so that each column begins at a multiple of its item size.
        order = sorted(range(len(made)), key=lambda number: -dtypes[number].itemsize)
        starts, start = {}, np.dtype(np.int64).itemsize
        for number in order:
            starts[number] = start
            start += sizes[number]
        self._row_bytes = start
        self._forms = [(starts[number], inner[number], dtypes[number]) for number in range(len(made))]
        self.columns = np.array(
            [(address(values), 0, size, kind) for (kind, values), size in zip(made, sizes, strict=True)], COLUMN
        )
        self._block_columns = self.columns[order]
        self._ready = ready
        self.table = np.array(
            (
                generator.bit_generator.ctypes.bit_generator.value,
                address(ready),
                address(stores["steps"].values) if is_n_step else 0,
                streams.num_slots,
                streams.rows * streams.num_slots,
                gamma,
            ),
            TRANSITIONS,
        )
        self._table = pointer(self.table)
        self._block_arguments = pointer(self._block_columns), len(made)
        self._draw, self._read = library().draw_steps, library().read_transitions
        place, whole = ctypes.c_void_p, ctypes.c_int64
        self._draw.argtypes = (place, whole, whole, whole, place)
        self._read.argtypes = (place, place, whole, place, whole, place)

    @staticmethod
    def supports(stores: Mapping[str, Any], streams: Streams) -> bool:
        """Whether all columns are stored unchanged, and indices can be drawn from 32 random bits."""
        plain = all(isinstance(store, PlainStore) for tree in stores.values() for store in leaves(tree))
        return plain and streams.num_workers == 1 and streams.num_indices <= MOST_INDICES

    def draw(self, number: int, times: int) -> Indices:
        """Samples indices of ready steps uniformly with replacement; at least one step must be ready."""
        indices: Indices = np.empty(number * times, np.int64)
        self._draw(self._table, self.streams.num_written, number, times, address(indices))
        return indices

    def read(self, indices: Indices) -> SampleBatch:
        """Reads the n-step transitions that start at N indices, as columns [N, 1, ...], with `weights` of 1."""
        number = len(indices)
        block = np.empty(number * self._row_bytes, np.uint8)
        self._read(self._table, *self._block_arguments, address(indices), number, address(block))
        arrays = [np.ndarray((number, 1, *inner), dtype, block, number * at) for at, inner, dtype in self._forms]
        return SampleBatch(
            {
                name: arrays[tree] if tree.__class__ is int else map_tree(arrays.__getitem__, tree)
                for name, tree in self._trees.items()
            }
        )


@dataclass(slots=True)  # created for each update; a frozen instance would take three times as long
class UnreadMinibatches:
    """Minibatches that a replay buffer is due to deliver, which the learner draws and reads as part of its updates.

    Attributes:
        reader: Draws and reads the transitions.
        size: Transitions of a minibatch, S.
        number: Number of remaining minibatches, N.
        chosen: Indices [N * S] that a sampler chose; None if the reader draws uniformly.
        weights: Importance weights [N * S] of the chosen transitions; None for ones.
    """

    reader: TransitionReader
    size: int
    number: int
    chosen: Indices | None = None
    weights: Array | None = None

    def read(self, number: int) -> SampleBatch:
        """Draws and reads the next minibatches.

        Args:
            number: Number of minibatches, at most the number remaining.

        Returns:
            Rows of the minibatches, with their replay `indices` [number * S].
        """
        own = slice(number * self.size)
        indices = self.reader.draw(self.size, number) if self.chosen is None else self.chosen[own]
        batch = self.reader.read(indices)
        if self.weights is not None:
            batch["weights"] = self.weights[own, None]
        batch["indices"] = indices
        self.drop(number)
        return batch

    def drop(self, number: int) -> None:
        """Counts the next minibatches as read."""
        self.number -= number
        if self.chosen is not None and self.weights is not None:
            self.chosen, self.weights = self.chosen[number * self.size :], self.weights[number * self.size :]
