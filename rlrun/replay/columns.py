"""The columns of a replay ring: their stores, and its rows as fragments (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import leaves, map_tree
from rlrun.data.views import VIEW_FRAMES, is_viewed
from rlrun.errors import UsageError
from rlrun.replay.frame_store import FrameStore
from rlrun.replay.stores import Allocate, Indices, PlainStore, Store

FLAGS = ("terminateds", "truncateds", "valid")


def has_frames(fragment: Mapping[str, Any]) -> bool:
    """Whether the observations of a fragment are windows over single observations, each of which is stored once."""
    return is_viewed(fragment["obs"]) and VIEW_FRAMES in fragment["obs"]


def stores_for(
    fragment: SampleBatch,
    shape: tuple[int, int, int],
    *,
    extra: Sequence[str],
    is_n_step: bool,
    frame_stack: int | None,
    new: Allocate,
) -> dict[str, Any]:
    """Allocates the stores of a ring's columns, by name; where a column is a tree of arrays, a tree of stores.

    Args:
        fragment: A fragment [T, B] with the columns to come; T does not matter.
        shape: Workers, rows, and env slots of each worker.
        extra: Names of further columns to store.
        is_n_step: Whether n-step rewards, discounts and numbers of steps are stored too.
        frame_stack: Images in a stacked observation; None if observations are not stacks.
        new: Allocates zeros.

    Raises:
        UsageError: No part of the observation is a stack of `frame_stack` images.
    """

    def plain(leaf: NDArray[Any]) -> Store:
        return PlainStore(shape, leaf.shape[2:], leaf.dtype, new)

    def stacked(leaf: NDArray[Any]) -> Store:
        is_stack = leaf.ndim >= 5 and leaf.shape[2] == frame_stack
        return FrameStore(shape, leaf.shape[2:], leaf.dtype, new) if is_stack else plain(leaf)

    def frames(leaf: NDArray[Any]) -> Store:
        return FrameStore(shape, leaf.shape[2:], leaf.dtype, new)

    stores = {"obs": map_tree(stacked, fragment["obs"])}
    if has_frames(fragment):
        stores["obs"] = {**stores["obs"], VIEW_FRAMES: map_tree(frames, fragment["obs"][VIEW_FRAMES])}
    if frame_stack is not None and not any(isinstance(store, FrameStore) for store in leaves(stores["obs"])):
        shapes = ", ".join(str(leaf.shape[2:]) for leaf in leaves(fragment["obs"]))
        raise UsageError(
            f"replay.frame_stack is {frame_stack}, but no part of the observation is a stack of that many images: "
            f"its shape is {shapes}"
        )
    for name in ("actions", *extra):
        stores[name] = map_tree(plain, fragment[name])
    kinds: dict[str, Any] = {"rewards": np.float32, **dict.fromkeys(FLAGS, np.bool_)}
    if is_n_step:
        kinds |= {"n_step_rewards": np.float32, "discounts": np.float32, "steps": np.uint16}
    return stores | {name: PlainStore(shape, (), dtype, new) for name, dtype in kinds.items()}


def rows_of(fragment: SampleBatch, names: Sequence[str], rows: Indices, slots: slice) -> SampleBatch:
    """A fragment [T, B] of some rows and slots of another one.

    Args:
        fragment: The other one.
        names: Columns to take.
        rows: The rows [T + 1]; of all columns but `obs`, the last one is left out.
        slots: Env slots.
    """
    part = SampleBatch()
    for name in names:
        own = rows if name == "obs" else rows[:-1]
        part[name] = map_tree(lambda leaf, own=own: leaf[own, slots], fragment[name])
    return part


def rows_without_steps(like: Mapping[str, Any], number: int, slots: slice) -> SampleBatch:
    """A fragment of zeros in which no row is valid.

    Args:
        like: A fragment with the columns and all env slots; its length does not matter.
        number: Rows, T.
        slots: Env slots to make it for.
    """
    rows: Indices = np.zeros(number + 1, np.int64)
    zeros = SampleBatch(like).map(lambda leaf: np.zeros((1, *leaf.shape[1:]), leaf.dtype))
    return rows_of(zeros, tuple(like), rows, slots)
