"""Columns of a replay buffer: allocation of their storage, and slicing of the fragments to store (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.data.views import VIEW_FRAMES, is_viewed
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.replay.stores import Allocate, Indices, PlainStore, Store
from rlrun.engine.settings.registry import load_internal

FRAME_STORE = "rlrun.engine.replay.frame_store:FrameStore"
"""Import path of the store for frame stacks and history windows."""

FLAGS = ("terminateds", "truncateds", "valid")


def has_frames(fragment: Mapping[str, Any]) -> bool:
    """Whether a fragment's observations are stacks of frames, each of which the replay buffer stores only once."""
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
    """Allocates the storage of a replay buffer's columns, by name; nested columns get a tree of stores.

    Args:
        fragment: Example fragment [T, B] with the columns to store; T is arbitrary.
        shape: Number of workers, number of rows per env slot, and number of env slots per worker.
        extra: Names of additional columns to store.
        is_n_step: Whether n-step rewards, discounts and transition lengths are stored too.
        frame_stack: Number of images in a frame stack; None if observations are not frame stacks.
        new: Function that allocates a zero-filled array.

    Raises:
        UsageError: No part of the observation is a stack of `frame_stack` images.
    """

    def plain(leaf: NDArray[Any]) -> Store:
        return PlainStore(shape, leaf.shape[2:], leaf.dtype, new)

    def is_stack(leaf: NDArray[Any]) -> bool:
        return leaf.ndim >= 5 and leaf.shape[2] == frame_stack

    def frames(leaf: NDArray[Any]) -> Store:
        store: Store = load_internal(FRAME_STORE)(shape, leaf.shape[2:], leaf.dtype, new)
        return store

    stores = {"obs": map_tree(lambda leaf: frames(leaf) if is_stack(leaf) else plain(leaf), fragment["obs"])}
    if has_frames(fragment):
        stores["obs"] = {**stores["obs"], VIEW_FRAMES: map_tree(frames, fragment["obs"][VIEW_FRAMES])}
    if frame_stack is not None and not has_frames(fragment) and not any(map(is_stack, leaves(fragment["obs"]))):
        shapes = ", ".join(str(leaf.shape[2:]) for leaf in leaves(fragment["obs"]))
        raise UsageError(
            f"replay.frame_stack is {frame_stack}, but no part of the observation is a stack of that many "
            f"images: the shapes are {shapes}"
        )
    for name in ("actions", *extra):
        stores[name] = map_tree(plain, fragment[name])
    kinds: dict[str, Any] = {"rewards": np.float32, **dict.fromkeys(FLAGS, np.bool_)}
    if is_n_step:
        kinds |= {"n_step_rewards": np.float32, "discounts": np.float32, "steps": np.uint16}
    return stores | {name: PlainStore(shape, (), dtype, new) for name, dtype in kinds.items()}


def rows_of(fragment: SampleBatch, names: Sequence[str], rows: Indices, slots: slice) -> SampleBatch:
    """Extracts part of a fragment of experience [T, B]: selected columns, steps and env slots.

    Args:
        fragment: Fragment to slice.
        names: Columns to take.
        rows: Row indices [N + 1]: N steps, and the row after the last step, from which only `obs` is taken.
        slots: Env slots.
    """
    part = SampleBatch()
    for name in names:
        own = rows if name == "obs" else rows[:-1]
        part[name] = map_tree(lambda leaf, own=own: leaf[own, slots], fragment[name])
    return part


def rows_without_steps(like: Mapping[str, Any], number: int, slots: slice) -> SampleBatch:
    """Creates a fragment of zeros whose rows are all invalid, to be stored as padding.

    Args:
        like: Example fragment that has the same columns and all env slots; its length is arbitrary.
        number: Number of padding rows, T.
        slots: Env slots of the padding fragment.
    """
    rows: Indices = np.zeros(number + 1, np.int64)
    zeros = SampleBatch(like).map(lambda leaf: np.zeros((1, *leaf.shape[1:]), leaf.dtype))
    return rows_of(zeros, tuple(like), rows, slots)
