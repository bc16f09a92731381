"""History views: network inputs with stacked observations, past actions and past rewards (NumPy).

A fragment stores each observation, action and reward once. Network inputs are gathered when needed: `viewed` replaces
`obs` with a dict with these parts:

- `view:obs`, the current observation, or `view:frames` [n, ...], the last n observations, oldest first;
- `view:prev_actions` [k, ...], the last k actions, and `view:prev_rewards` [k], their rewards as the env returned them;
- `action_mask`, the current mask, if the observation has one.

Row 0 of each column's history represents steps before an episode's start. It holds zeros, or an out-of-range number in
columns that are one-hot encoded. `episode_steps` is the number of steps since the episode's start. `history` holds the
rows before a fragment; the worker passes it from one fragment to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.data.sample_batch import EPISODE_STEPS, HISTORY, PREV_REWARDS, SampleBatch
from rlrun.engine.data.tree import leaves, map_tree

VIEW_OBS = "view:obs"
VIEW_FRAMES = "view:frames"
VIEW_PREV_ACTIONS = "view:prev_actions"
VIEW_PREV_REWARDS = "view:prev_rewards"

Rows = NDArray[np.int64]

NOT_SHOWN = -1
"""Value of `episode_steps` in a row without an observation."""


def is_viewed(tree: Any) -> bool:
    """Whether a network input is a history view (with past frames, actions or rewards), not an env observation."""
    return isinstance(tree, dict) and (VIEW_OBS in tree or VIEW_FRAMES in tree)


def shown(tree: Any) -> Any:
    """Returns the env observations within a history view; a network input without history is returned unchanged."""
    if not is_viewed(tree):
        return tree
    observed = tree[VIEW_FRAMES] if VIEW_FRAMES in tree else tree[VIEW_OBS]
    return {ACTION_MASK: tree[ACTION_MASK], **observed} if ACTION_MASK in tree else observed


def with_new_observation(tree: Any, observed: Any) -> Any:
    """Returns a copy of a history view in which the env observations (see `shown`) are replaced."""
    if not is_viewed(tree):
        return observed
    return {**tree, **split(observed, VIEW_FRAMES if VIEW_FRAMES in tree else VIEW_OBS)}


def split(observed: Any, name: str) -> dict[str, Any]:
    """Returns a dict with the action mask of an env observation, if it has one, and the rest under a given name."""
    if not isinstance(observed, dict) or ACTION_MASK not in observed:
        return {name: observed}
    seen = {key: part for key, part in observed.items() if key != ACTION_MASK}
    return {ACTION_MASK: observed[ACTION_MASK], name: seen}


def viewed(batch: SampleBatch) -> SampleBatch:
    """Returns a copy of a fragment with history views [T + 1, B, ...] as `obs`; without history, the fragment itself.

    Args:
        batch: Fragment [T, B] of experience, whose observations may be normalized or not.
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
        # The reward column is shifted by one step already.
        rewards, numbers = batch[PREV_REWARDS], range(kept["prev_rewards"] - 1, -1, -1)
        observed[VIEW_PREV_REWARDS] = _shifted(history["prev_rewards"], rewards, earlier, steps - 1, numbers)
    columns = {name: column for name, column in batch.items() if name not in (HISTORY, EPISODE_STEPS, PREV_REWARDS)}
    return SampleBatch(columns, obs=observed)


def history_after(history: Mapping[str, Any], batch: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the last frames, actions and rewards of a fragment, from which the next fragment's first views are built.

    The fragment's final row, which only holds the observation for bootstrapping, is left out.

    Args:
        history: Rows before the fragment, by column; their number is the number of rows to keep.
        batch: The recorded fragment.
    """
    steps = batch[EPISODE_STEPS]
    columns = {
        "obs": _without_action_mask(batch["obs"]),
        "actions": batch["actions"],
        "prev_rewards": batch[PREV_REWARDS],
    }
    kept = {name: len(leaves(tree)[0]) - 1 for name, tree in history.items()}
    # The earlier rows are counted back from the closing row, whatever it contains.
    earlier = [rows[-1] for rows in _earlier_rows(steps >= 0, max(kept.values()) + 1)]
    slots = np.arange(steps.shape[1])

    def last_rows(before: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
        number = len(before) - 1
        extended = np.concatenate([before, rows])
        latest = [extended[earlier[k] + len(before), slots] for k in range(number, 0, -1)]
        return np.stack([before[0], *latest])

    return {name: map_tree(last_rows, tree, columns[name]) for name, tree in history.items()}


def _without_action_mask(observed: Any) -> Any:
    """Observation without the action mask, since past masks are never stacked."""
    return split(observed, VIEW_OBS)[VIEW_OBS]


def _earlier_rows(filled: NDArray[np.bool_], number: int) -> list[Rows]:
    """Row index of each slot's k-th preceding observation, for each row and k < `number`.

    Args:
        filled: Whether a row holds an observation, [T + 1, B].
        number: Number of shifts k.

    Returns:
        The row indices for each k, [T + 1, B]; -1 is the newest row of the history, -2 the one before it.
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
    """Stacks the values of K shifts: a tree of [T + 1, B, K, ...] whose rows hold the values of k observations earlier.

    Args:
        history: Row 0 holds the value before an episode's start; the rows before the fragment follow, oldest first.
        tree: Columns [T, B, ...] or [T + 1, B, ...].
        earlier: Result of `_earlier_rows`.
        steps: Steps since the episode's start, [T + 1, B].
        shifts: The shifts k.
    """
    slots = np.arange(steps.shape[1])

    def shift(before: NDArray[Any], column: NDArray[Any]) -> NDArray[Any]:
        extended = np.concatenate([before, column])
        picked = [extended[np.where(steps >= k, earlier[k] + len(before), 0), slots] for k in shifts]
        return np.stack(picked, axis=2)

    return map_tree(shift, history, tree)
