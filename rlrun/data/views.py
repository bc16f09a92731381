"""Views: earlier observations, actions and rewards of an episode beside the present observation (NumPy).

A fragment holds each observation, action and reward once. What a network sees of them is shifted out of it when it is
read: `viewed` puts a dict in place of `obs`. Its parts are

- `view:obs`, the present observation, or `view:frames` [n, ...], the last n of them, the oldest first;
- `view:prev_actions` [k, ...], the last k actions; `view:prev_rewards` [k], what they gave, as the env gave it;
- `action_mask`, the present one, where the observation holds one.

What is before an episode's start stands in row 0 of each column's history: zeros, or for numbers that enter as one-hot
vectors one that is none of theirs. `episode_steps` tells how far back an episode goes, and `history` holds what came
before a fragment: the worker carries it from one to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.data.action_masks import ACTION_MASK
from rlrun.data.sample_batch import EPISODE_STEPS, HISTORY, PREV_REWARDS, SampleBatch
from rlrun.data.tree import leaves, map_tree

VIEW_OBS = "view:obs"
VIEW_FRAMES = "view:frames"
VIEW_PREV_ACTIONS = "view:prev_actions"
VIEW_PREV_REWARDS = "view:prev_rewards"

Rows = NDArray[np.int64]

NOT_SHOWN = -1
"""`episode_steps` of a row in which no observation stands."""


def is_viewed(tree: Any) -> bool:
    """Whether a tree is that of a view, instead of an observation as the env gives it."""
    return isinstance(tree, dict) and (VIEW_OBS in tree or VIEW_FRAMES in tree)


def shown(tree: Any) -> Any:
    """Returns the part of a view's tree that stands for the env's observation, in its structure; others as they are."""
    if not is_viewed(tree):
        return tree
    observed = tree[VIEW_FRAMES] if VIEW_FRAMES in tree else tree[VIEW_OBS]
    return {ACTION_MASK: tree[ACTION_MASK], **observed} if ACTION_MASK in tree else observed


def with_shown(tree: Any, observed: Any) -> Any:
    """Returns a view's tree with another part for the env's observation, in the structure that `shown` returns."""
    if not is_viewed(tree):
        return observed
    return {**tree, **split(observed, VIEW_FRAMES if VIEW_FRAMES in tree else VIEW_OBS)}


def split(observed: Any, name: str) -> dict[str, Any]:
    """Returns an observation as parts of a view: what a network sees under a name, and the action mask by itself."""
    if not isinstance(observed, dict) or ACTION_MASK not in observed:
        return {name: observed}
    seen = {key: part for key, part in observed.items() if key != ACTION_MASK}
    return {ACTION_MASK: observed[ACTION_MASK], name: seen}


def viewed(batch: SampleBatch) -> SampleBatch:
    """Returns a fragment with what a network sees in place of `obs`, [T + 1, B, ...]; one without views as it is.

    Args:
        batch: A fragment [T, B], with raw observations or with filtered ones.
    """
    if HISTORY not in batch:
        return batch
    history, steps = batch[HISTORY], batch[EPISODE_STEPS]
    kept = {name: len(leaves(tree)[0]) for name, tree in history.items()}
    earlier = _earlier_rows(steps >= 0, max(kept.values()))
    observed = split(batch["obs"], VIEW_FRAMES if "obs" in kept else VIEW_OBS)
    if "obs" in kept:
        shifts = range(kept["obs"] - 1, -1, -1)
        observed[VIEW_FRAMES] = _shifted(history["obs"], observed[VIEW_FRAMES], earlier, steps, shifts)
    if "actions" in kept:
        shifts = range(kept["actions"] - 1, 0, -1)
        observed[VIEW_PREV_ACTIONS] = _shifted(history["actions"], batch["actions"], earlier, steps, shifts)
    if "prev_rewards" in kept:
        # A row's own number is that of the step before it.
        rewards, numbers = batch[PREV_REWARDS], range(kept["prev_rewards"] - 1, -1, -1)
        observed[VIEW_PREV_REWARDS] = _shifted(history["prev_rewards"], rewards, earlier, steps - 1, numbers)
    columns = {name: column for name, column in batch.items() if name not in (HISTORY, EPISODE_STEPS, PREV_REWARDS)}
    return SampleBatch(columns, obs=observed)


def history_after(history: Mapping[str, Any], batch: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what comes before the fragment behind one: the last rows of it, closing row left out.

    Args:
        history: What came before it.
        batch: The fragment as it was recorded.
    """
    steps = batch[EPISODE_STEPS]
    columns = {"obs": _seen_part(batch["obs"]), "actions": batch["actions"], "prev_rewards": batch[PREV_REWARDS]}
    kept = {name: len(leaves(tree)[0]) - 1 for name, tree in history.items()}
    # Counted from the closing row, whatever stands there.
    earlier = [rows[-1] for rows in _earlier_rows(steps >= 0, max(kept.values()) + 1)]
    slots = np.arange(steps.shape[1])

    def last_rows(before: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
        number = len(before) - 1
        extended = np.concatenate([before, rows])
        latest = [extended[earlier[k] + len(before), slots] for k in range(number, 0, -1)]
        return np.stack([before[0], *latest])

    return {name: map_tree(last_rows, tree, columns[name]) for name, tree in history.items()}


def _seen_part(observed: Any) -> Any:
    """Returns an observation without its action mask, of which nobody sees earlier ones."""
    return split(observed, VIEW_OBS)[VIEW_OBS]


def _earlier_rows(filled: NDArray[np.bool_], number: int) -> list[Rows]:
    """Returns for each row of a fragment where the one stands that its slot was shown k rows before, k < `number`.

    Args:
        filled: Whether an observation stands in a row, [T + 1, B].
        number: How many.

    Returns:
        For each k the rows, [T + 1, B]; -1 is the newest row of the history, -2 the one before it.
    """
    length, slots = filled.shape
    rows: Rows = np.broadcast_to(np.arange(length)[:, None], filled.shape)
    before: Rows = np.full(filled.shape, -1)
    before[1:] = np.maximum.accumulate(np.where(filled, rows, -1), axis=0)[:-1]
    found = [rows]
    for _ in range(number - 1):
        last = found[-1]
        found.append(np.where(last >= 0, before[last.clip(min=0), np.arange(slots)], last - 1))
    return found


def _shifted(history: Any, tree: Any, earlier: list[Rows], steps: Rows, shifts: range) -> Any:
    """Returns a tree of [T + 1, B, K, ...]: in each row what stood there k rows before, for K shifts.

    Args:
        history: What is before an episode's start in row 0, then what came before the fragment, oldest first.
        tree: Columns [T, B, ...] or [T + 1, B, ...].
        earlier: What `_earlier_rows` returns.
        steps: How many rows back an episode goes, [T + 1, B].
        shifts: Each k.
    """
    slots = np.arange(steps.shape[1])

    def shift(before: NDArray[Any], column: NDArray[Any]) -> NDArray[Any]:
        extended = np.concatenate([before, column])
        picked = [extended[np.where(steps >= k, earlier[k] + len(before), 0), slots] for k in shifts]
        return np.stack(picked, axis=2)

    return map_tree(shift, history, tree)
