"""Cuts a batch into minibatches of one shape (torch)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import map_tree


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
