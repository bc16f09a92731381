"""Minibatches of a fixed shape, taken from a batch (torch)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.learner.staging import over_memory


@dataclass(frozen=True)
class Passes:
    """Epochs over a batch, each split into minibatches of a fixed shape.

    Attributes:
        rows: Number of rows in the batch.
        size: Rows per minibatch, summed over all learners.
        share: The learner's part of each minibatch, as (i, n): part i, from 0, of n equal parts.
    """

    rows: int
    size: int
    share: tuple[int, int]

    @classmethod
    def over(cls, rows: int, length: int, minibatch_size: int, share: tuple[int, int]) -> Passes:
        """Creates the epochs over a batch, with minibatches of whole rows that can be divided equally among n learners.

        Args:
            rows: Number of rows in the batch.
            length: Steps per row.
            minibatch_size: Steps per minibatch.
            share: The learner's part of each minibatch, as (i, n): part i, from 0, of n equal parts.
        """
        _, parts = share
        return cls(rows, -(-min(max(minibatch_size // length, 1), rows) // parts) * parts, share)

    @property
    def local_size(self) -> int:
        """Number of rows in this learner's share of a minibatch."""
        return self.size // self.share[1]

    @property
    def spare(self) -> int:
        """Number of padding rows in the last minibatch of an epoch."""
        return -self.rows % self.size

    def order(self, generator: np.random.Generator) -> NDArray[np.int64]:
        """Returns this learner's row indices for one epoch, in shuffled order; padding rows have the index `rows`.

        Args:
            generator: The learner's random generator, with the same seed for all learners of a policy.
        """
        order = generator.permutation(self.rows)
        if self.spare:
            order = np.concatenate([order, np.full(self.spare, self.rows)])
        part, parts = self.share
        return order if parts == 1 else order.reshape(-1, parts, self.local_size)[:, part].ravel()


class Selection:
    """A batch, with the indices of the rows that form each of K minibatches.

    The rows are not copied yet: kernels later gather only the columns that an update reads.

    Args:
        columns: Rows of experience [sequences, steps, ...] as NumPy arrays.
        rows: Indices of the M rows of each minibatch, [K, M]; None for one minibatch of all rows.

    Attributes:
        rows: Indices of the M rows of each minibatch, [K, M]; None for one minibatch of all rows.
        number: Number of minibatches, K.
        names: Names of the columns, in order.
        leaves: The columns' arrays, in the order of `named_leaves`.
        shape: Rows of a minibatch, and steps per row.
    """

    def __init__(self, columns: SampleBatch, rows: NDArray[np.int64] | None = None) -> None:
        self.rows = rows
        self.leaves: list[NDArray[Any]] = []
        for tree in columns.values():
            self.leaves += [tree] if isinstance(tree, np.ndarray) else leaves(tree)
        if rows is not None:  # C kernels locate rows by their size in bytes, so arrays must be contiguous
            self.leaves = [np.ascontiguousarray(leaf) for leaf in self.leaves]
        size, length = columns["valid"].shape
        self.number, size = (1, size) if rows is None else rows.shape
        self.names, self.shape = tuple(columns), (size, length)
        self._columns = columns

    def gathered(self, number: int) -> SampleBatch:
        """Gathers the rows of one minibatch, given by its index, as tensors."""
        if self.rows is None:
            return self._columns.map(over_memory)
        rows = self.rows[number]
        return self._columns.map(lambda leaf: torch.from_numpy(leaf.take(rows, 0)))


def minibatches(columns: SampleBatch, order: Tensor, size: int) -> Iterator[SampleBatch]:
    """Yields the minibatches of a batch, in the order of shuffled row indices.

    Args:
        columns: Rows of experience [sequences, steps, ...].
        order: Shuffled row indices; their number must be a multiple of `size`.
        size: Rows per minibatch.
    """
    shuffled = columns.map(lambda leaf: leaf.index_select(0, order))
    cut = {name: map_tree(lambda leaf: leaf.split(size), tree) for name, tree in shuffled.items()}
    for i in range(len(order) // size):
        yield SampleBatch({name: nth(tree, i) for name, tree in cut.items()})


def nth(tree: Any, index: int) -> Tensor | Any:
    """Returns the minibatch with a given index from a tree of columns that have been split into minibatches.

    In the tree, a tuple of tensors is one column, with a tensor per minibatch; any other tuple is a nested column.
    """
    if isinstance(tree, dict):
        return {key: nth(value, index) for key, value in tree.items()}
    if isinstance(tree[0], Tensor):
        return tree[index]
    return tuple(nth(value, index) for value in tree)
