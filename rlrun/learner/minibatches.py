"""Minibatches of one shape from a batch (torch)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree, named_leaves


@dataclass(frozen=True)
class Passes:
    """Passes (epochs) over a batch, cut into minibatches of one shape.

    Attributes:
        rows: Rows of the batch.
        size: Rows of a minibatch, over all learners.
        share: (i, n): a learner takes the i-th of n equal parts of every minibatch, from 0.
    """

    rows: int
    size: int
    share: tuple[int, int]

    @classmethod
    def over(cls, rows: int, length: int, minibatch_size: int, share: tuple[int, int]) -> Passes:
        """Passes over a batch, in minibatches whose size is rounded to whole rows and equal shares.

        Args:
            rows: Rows of the batch.
            length: Steps in a row.
            minibatch_size: Steps in a minibatch.
            share: The learner's share, see the class.
        """
        _, parts = share
        return cls(rows, -(-min(max(minibatch_size // length, 1), rows) // parts) * parts, share)

    @property
    def own_size(self) -> int:
        """Rows in this learner's share of a minibatch."""
        return self.size // self.share[1]

    @property
    def spare(self) -> int:
        """Padding rows of the last minibatch in a pass."""
        return -self.rows % self.size

    def order(self, generator: np.random.Generator) -> NDArray[np.int64]:
        """Draws the order of this learner's rows in one pass; padding rows have the number `rows`."""
        order = generator.permutation(self.rows)
        if self.spare:
            order = np.concatenate([order, np.full(self.spare, self.rows)])
        part, parts = self.share
        return order if parts == 1 else order.reshape(-1, parts, self.own_size)[:, part].ravel()


class Selection:
    """Rows of a batch that are not gathered yet: the NumPy executor gathers only the columns that it reads.

    Args:
        columns: Rows of experience [S, L, ...], on the CPU.
        leaves: Arrays over the columns' memory, in the order of `named_leaves`.
        rows: Numbers of the selected rows.

    Attributes:
        leaves: Arrays over the columns' memory, in the order of `named_leaves`.
        rows: Numbers of the selected rows.
        shape: Number of rows, and of steps in each.
    """

    def __init__(self, columns: SampleBatch, leaves: Sequence[NDArray[Any]], rows: NDArray[np.int64]) -> None:
        self.leaves = leaves
        self.rows = rows
        self.shape = (len(rows), columns["valid"].shape[1])
        self._columns = columns

    def gathered(self) -> SampleBatch:
        """Gathers the rows into a minibatch."""
        rows = torch.from_numpy(self.rows)
        return self._columns.map(lambda leaf: leaf.index_select(0, rows))


Cut = Callable[[Tensor, int], Iterator[SampleBatch | Selection]]
"""Yields the minibatches of a batch for an order of rows and a size, which divides the number of rows."""


def selections_of(columns: SampleBatch) -> Cut:
    """A `Cut` of a batch into minibatches that are not gathered yet.

    Args:
        columns: Rows of experience [S, L, ...], on the CPU.
    """
    leaves = [leaf.numpy() for _, leaf in named_leaves(dict(columns))]

    def cut(order: Tensor, size: int) -> Iterator[Selection]:
        for rows in order.numpy().reshape(-1, size):
            yield Selection(columns, leaves, rows)

    return cut


def minibatches(columns: SampleBatch, order: Tensor, size: int) -> Iterator[SampleBatch]:
    """Yields a batch's rows in an order, as minibatches.

    Args:
        columns: Rows of experience [S, L, ...].
        order: Numbers of the rows; `size` divides their number.
        size: Rows of a minibatch.
    """
    shuffled = columns.map(lambda leaf: leaf.index_select(0, order))
    cut = {name: map_tree(lambda leaf: leaf.split(size), tree) for name, tree in shuffled.items()}
    for i in range(len(order) // size):
        yield SampleBatch({name: nth(tree, i) for name, tree in cut.items()})


def nth(tree: Any, index: int) -> Tensor | Any:
    """The index-th minibatch, from a tree of sequences of minibatches.

    A split leaf is a tuple of tensors, a nested column a tuple of something else.
    """
    if isinstance(tree, dict):
        return {key: nth(value, index) for key, value in tree.items()}
    if isinstance(tree[0], Tensor):
        return tree[index]
    return tuple(nth(value, index) for value in tree)
