"""Which columns a ring stores, and its rows as fragments (NumPy)."""

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
    """Whether the observations of a fragment are a view of several, of which each is kept once."""
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
    """Returns empty stores for fragments like one, by column; trees of them where the column is one.

    Args:
        fragment: A fragment [T, B], of any length.
        shape: Workers, rows and columns.
        extra: Columns beyond those of a step.
        is_n_step: Whether transitions over several steps are kept as well.
        frame_stack: How many images an observation is a stack of, or None.
        new: Sets memory aside.

    Raises:
        UsageError: If no part of the observation is such a stack.
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
            f"replay.frame_stack is {frame_stack}, but no part of the observation is a stack of as many images: "
            f"its shape is {shapes}"
        )
    for name in ("actions", *extra):
        stores[name] = map_tree(plain, fragment[name])
    kinds: dict[str, Any] = {"rewards": np.float32, **dict.fromkeys(FLAGS, np.bool_)}
    if is_n_step:
        kinds |= {"n_step_rewards": np.float32, "discounts": np.float32, "steps": np.uint16}
    return stores | {name: PlainStore(shape, (), dtype, new) for name, dtype in kinds.items()}


def rows_of(fragment: SampleBatch, names: Sequence[str], rows: Indices, slots: slice) -> SampleBatch:
    """Returns columns of rows [T + 1] of some slots as a fragment [T, B] that the last of them closes."""
    part = SampleBatch()
    for name in names:
        own = rows if name == "obs" else rows[:-1]
        part[name] = map_tree(lambda leaf, own=own: leaf[own, slots], fragment[name])
    return part


def rows_without_steps(like: Mapping[str, Any], number: int, slots: slice) -> SampleBatch:
    """Returns a fragment of zeros for some slots in which no row holds a step.

    Args:
        like: A fragment, of any length, with all slots.
        number: Its rows, T.
        slots: Which slots.
    """
    rows: Indices = np.zeros(number + 1, np.int64)
    zeros = SampleBatch(like).map(lambda leaf: np.zeros((1, *leaf.shape[1:]), leaf.dtype))
    return rows_of(zeros, tuple(like), rows, slots)
