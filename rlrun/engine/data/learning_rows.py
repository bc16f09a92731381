"""Reshaping of batches of T steps of B envs into S rows of L steps for the learner: single steps or sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.packing import Packing, filled_rows, zeroed
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.data.views import viewed
from rlrun.engine.messages.errors import UsageError


def learning_rows(batch: SampleBatch, *, seq_len: int | None, whole_fragments: bool) -> SampleBatch:
    """Reshapes a batch of T steps of B envs into S rows of L steps for the learner: single steps or sequences.

    Args:
        batch: Batch [T, B] that also has the observations after the last steps (closing rows).
        seq_len: Number of steps in a row for a recurrent policy, at most T; None for rows of single steps.
        whole_fragments: Whether a row has all T steps of an env and the observation after them, L = T + 1.

    Raises:
        UsageError: The batch has recurrent state, but `seq_len` is None.
    """
    if whole_fragments:
        return whole_fragment_rows(batch)
    batch = viewed(batch)
    if seq_len is not None:
        return sequence_rows(batch.steps(), min(seq_len, len(batch["valid"])))
    if "state" in batch:
        raise UsageError(
            "a recurrent network learns from sequences: leave out model.core, or pass seq_len=... or "
            "whole_fragments=True to the operator that learns"
        )
    return batch.steps().zero_invalid().rows(1)


def has_empty_rows(batch: SampleBatch) -> bool:
    """Whether a batch [T, B] has entries with neither a step nor an episode's final observation.

    If row 0 of a slot holds no step but row 1 does, row 0 is treated as the final observation of an episode in the
    previous fragment.
    """
    filled = filled_rows(batch["valid"], batch["terminateds"] | batch["truncateds"])[:-1]
    filled[0] |= filled[min(1, len(filled) - 1)]
    return not filled.all()


def without_empty_rows(rows: SampleBatch, *, at_least: int) -> SampleBatch:
    """Drops rows [S, L, ...] without a valid step, and appends rows of zeros if fewer than `at_least` remain.

    Args:
        rows: Columns of experience.
        at_least: Minimum number of rows, such as the fixed size of a minibatch.
    """
    filled = rows["valid"].any(axis=1).nonzero()[0]
    padding = max(at_least - len(filled), 0)
    if len(filled) == len(rows["valid"]) and not padding:
        return rows

    def pack(leaf: NDArray[Any]) -> NDArray[Any]:
        kept: NDArray[Any] = leaf[filled]
        if not padding:
            return kept
        return np.concatenate([kept, np.zeros((padding, *leaf.shape[1:]), leaf.dtype)])

    return rows.map(pack)


def rows_with_steps(
    batch: SampleBatch, *, minibatch_size: int, seq_len: int | None, whole_fragments: bool
) -> SampleBatch:
    """Returns the rows of `learning_rows` that have a valid step, padded with rows of zeros to fill a minibatch.

    Args:
        batch: See `learning_rows`.
        minibatch_size: Steps per minibatch, and the minimum number of steps in the returned rows.
        seq_len: See `learning_rows`.
        whole_fragments: See `learning_rows`.
    """
    rows = learning_rows(batch, seq_len=seq_len, whole_fragments=whole_fragments)
    return without_empty_rows(rows, at_least=max(minibatch_size // rows["valid"].shape[1], 1))


def whole_fragment_rows(batch: SampleBatch) -> SampleBatch:
    """Reshapes a batch [T, B] into B rows, each with all steps of an env slot and its final bootstrap observation.

    For a recurrent network each row begins with a step, and `state` [S, state_size] is the state before that step.
    """
    return target_rows(batch)[0]


def target_rows(batch: SampleBatch) -> tuple[SampleBatch, Packing]:
    """Reshapes a batch [T, B] into one row per env slot, for computing value targets.

    Returns:
        The rows, and the `Packing` whose `unpack` restores [T, B].
    """
    batch = viewed(batch)
    is_recurrent = "state" in batch
    packing = Packing(batch["valid"], batch["terminateds"], batch["truncateds"], to_front=is_recurrent)
    state = batch["state"] if is_recurrent else None
    columns = SampleBatch({name: column for name, column in batch.items() if name != "state"})
    closed = columns.closed().zero_invalid(keep=("obs",))
    packed = (
        closed.map(packing.pack) if packing.moves else SampleBatch(closed, obs=map_tree(packing.pack, closed["obs"]))
    )
    rows = packed.rows(len(packed["valid"]))
    if state is not None:
        rows["state"] = packing.first(state)
    return rows, packing


def sequence_rows(batch: SampleBatch, length: int) -> SampleBatch:
    """Splits each env slot's steps into sequences, [S, L], with the recurrent state before each sequence's first step.

    Rows hold steps only. An episode's final observation is left out: its value is known from acting, and
    `episode_starts` resets the state at the next step. Rows with fewer steps are padded with zeros.

    The state was recorded while acting; there is no burn-in. From the second minibatch on, it was therefore computed
    with older weights, as in other implementations of recurrent PPO.

    Args:
        batch: Columns [T, B, ...], including `episode_starts` and `state` [T, B, state_size].
        length: Number of steps in a sequence, L.

    Returns:
        Columns [S, L, ...] of S = ceil(T / L) * B rows, and `state` [S, state_size].
    """
    time, slots = batch["valid"].shape
    padded = -(-time // length) * length
    order = np.argsort(~batch["valid"], axis=0, kind="stable")

    def packed(leaf: NDArray[Any]) -> NDArray[Any]:
        rows = np.zeros((padded, slots, *leaf.shape[2:]), leaf.dtype)
        rows[:time] = leaf[order, np.arange(slots)]
        return rows

    steps = SampleBatch({name: map_tree(packed, tree) for name, tree in batch.items() if name != "state"})
    firsts = order[::length], np.arange(slots)
    state = zeroed(batch["state"][firsts], batch["valid"][firsts])
    return SampleBatch(steps.zero_invalid().rows(length), state=state.reshape(-1, state.shape[-1]))
