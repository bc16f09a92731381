"""Cuts a batch into minibatches of one shape (torch)."""

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
    """How each pass over a batch is cut into minibatches of one shape.

    Attributes:
        rows: Rows of the batch.
        size: Rows in a minibatch, over all learners.
        share: (i, n): of every minibatch a learner takes the i-th of n equal parts, from 0.
    """

    rows: int
    size: int
    share: tuple[int, int]

    @classmethod
    def over(cls, rows: int, length: int, minibatch_size: int, share: tuple[int, int]) -> Passes:
        """Returns the passes over rows of a length, in minibatches of about so many steps that all can share.

        Args:
            rows: Rows of the batch.
            length: Steps in a row.
            minibatch_size: Steps in a minibatch.
            share: The learner's part, see the class.
        """
        _, parts = share
        return cls(rows, -(-min(max(minibatch_size // length, 1), rows) // parts) * parts, share)

    @property
    def own_size(self) -> int:
        """Rows in this learner's part of a minibatch."""
        return self.size // self.share[1]

    @property
    def spare(self) -> int:
        """Rows that the last minibatch of a pass lacks; empty ones stand in for them."""
        return -self.rows % self.size

    def order(self, generator: np.random.Generator) -> NDArray[np.int64]:
        """Draws the numbers of this learner's rows in one pass; that of an empty row is `rows`."""
        order = generator.permutation(self.rows)
        if self.spare:
            order = np.concatenate([order, np.full(self.spare, self.rows)])
        part, parts = self.share
        return order if parts == 1 else order.reshape(-1, parts, self.own_size)[:, part].ravel()


class Selection:
    """Rows of a batch that nobody has gathered yet: an update by NumPy takes them of the columns alone that it reads.

    Args:
        columns: Rows of experience [S, L, ...], on the CPU.
        leaves: The memory of its columns, in the order of `named_leaves`.
        rows: Numbers of the selected rows.

    Attributes:
        leaves: The memory of the columns, in the order of `named_leaves`.
        rows: Numbers of the selected rows.
        shape: How many rows there are, and steps in each.
    """

    def __init__(self, columns: SampleBatch, leaves: Sequence[NDArray[Any]], rows: NDArray[np.int64]) -> None:
        self.leaves = leaves
        self.rows = rows
        self.shape = (len(rows), columns["valid"].shape[1])
        self._columns = columns

    def gathered(self) -> SampleBatch:
        """Returns the rows as a minibatch."""
        rows = torch.from_numpy(self.rows)
        return self._columns.map(lambda leaf: leaf.index_select(0, rows))


Cut = Callable[[Tensor, int], Iterator[SampleBatch | Selection]]
"""Yields a batch's rows in an order, so many at a time; that number divides how many there are."""


def selections_of(columns: SampleBatch) -> Cut:
    """Returns what cuts a batch into minibatches that are not gathered yet.

    Args:
        columns: Rows of experience [S, L, ...], on the CPU.
    """
    leaves = [leaf.numpy() for _, leaf in named_leaves(dict(columns))]

    def cut(order: Tensor, size: int) -> Iterator[Selection]:
        for rows in order.numpy().reshape(-1, size):
            yield Selection(columns, leaves, rows)

    return cut


def minibatches(columns: SampleBatch, order: Tensor, size: int) -> Iterator[SampleBatch]:
    """Yields a batch's rows in an order, so many at a time.

    Args:
        columns: Rows of experience [S, L, ...].
        order: Numbers of rows; `size` divides how many there are.
        size: Rows in a minibatch.
    """
    shuffled = columns.map(lambda leaf: leaf.index_select(0, order))
    cut = {name: map_tree(lambda leaf: leaf.split(size), tree) for name, tree in shuffled.items()}
    for i in range(len(order) // size):
        yield SampleBatch({name: nth(tree, i) for name, tree in cut.items()})


def nth(tree: Any, index: int) -> Tensor | Any:
    """Returns a tree of the index-th minibatches from a tree of sequences of them.

    A split leaf is itself a tuple of tensors, which tells it from a nested column.
    """
    if isinstance(tree, dict):
        return {key: nth(value, index) for key, value in tree.items()}
    if isinstance(tree[0], Tensor):
        return tree[index]
    return tuple(nth(value, index) for value in tree)
