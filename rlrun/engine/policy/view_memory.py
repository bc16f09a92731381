"""Memory of recent observations, actions and rewards in each env slot, for networks that see past steps (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import EPISODE_STEPS, HISTORY, PREV_REWARDS, SampleBatch
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.data.views import (
    NOT_SHOWN,
    VIEW_FRAMES,
    VIEW_OBS,
    VIEW_PREV_ACTIONS,
    VIEW_PREV_REWARDS,
    history_after,
    split,
)
from rlrun.engine.nn.observation_leaf import ObservationLeaf
from rlrun.engine.nn.observation_leaves import ObservationTree
from rlrun.engine.nn.view_leaves import nothing_before
from rlrun.engine.policy.action_spaces.action_space import ActionSpace

Flags = NDArray[np.bool_]

COLUMNS = {VIEW_FRAMES: "obs", VIEW_PREV_ACTIONS: "actions", VIEW_PREV_REWARDS: "prev_rewards"}
"""Names of the parts of a view in a fragment's history."""


class ViewMemory:
    """Last observations, actions and rewards of the running episode in each env slot, as inputs of the network.

    The memory also passes the last steps of one fragment to the next, whose first rows need them.

    Args:
        leaves_of: The network's inputs (current observation and past steps), a tree of `ObservationLeaf`.
        action_space: The policy's action space, which converts between its own actions and env actions.

    Attributes:
        has_frames: Whether the network sees stacked observations.
        has_actions: Whether the network sees past actions.
    """

    def __init__(self, leaves_of: ObservationTree, action_space: ActionSpace) -> None:
        self._leaves = leaves_of
        self._action_space = action_space
        self.has_frames = VIEW_FRAMES in leaves_of
        self.has_actions = VIEW_PREV_ACTIONS in leaves_of
        self._steps = np.zeros(0, np.int32)
        self._given = np.zeros(0)
        self._rewards = np.zeros(0)
        self._nothing: dict[str, Any] = {}
        self._seen: dict[str, Any] = {}
        self._history: dict[str, Any] = {}

    def begin(self, starts: Flags) -> None:
        """Clears the memory of the env slots in which a new episode begins (mask `starts` [B])."""
        if len(self._steps) != len(starts):
            self._steps, self._given = np.full(len(starts), NOT_SHOWN, np.int32), np.zeros(len(starts))
            self._seen, self._history = {}, {}
        elif starts.any():
            self._steps[starts] = NOT_SHOWN
            for leaf, nothing in zip(leaves(self._seen), leaves(self._nothing), strict=True):
                leaf[starts] = nothing

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Stores the rewards of the last step in B env slots, as the previous rewards of the next observations."""
        if len(self._given) == len(rewards):
            self._given += rewards

    def see(self, observations: Any, acts: Flags | None) -> Any:
        """Stores the raw observations of B env slots; returns the network's input, which includes past steps.

        Slots that do not act are unchanged.

        Args:
            observations: A tree of [B, ...].
            acts: Mask of the slots that act, [B]; None for all.
        """
        name = VIEW_FRAMES if self.has_frames else VIEW_OBS
        parts = split(observations, name)
        if not self._seen:
            self._nothing = self.before_episode(parts[name])
            self._seen = map_tree(lambda leaf: np.repeat(leaf[None], len(self._steps), axis=0), self._nothing)
        slots: Any = slice(None) if acts is None else acts
        self._steps[slots] += 1
        rewards = np.where(self._steps > 0, self._given, 0.0)
        self._given[slots] = 0.0
        if VIEW_PREV_REWARDS in self._seen:
            _push(self._seen[VIEW_PREV_REWARDS], rewards, slots)
        self._rewards = rewards
        if self.has_frames:
            map_tree(lambda kept, latest: _push(kept, latest, slots), self._seen[VIEW_FRAMES], parts[VIEW_FRAMES])
        return {**parts, **self._seen}

    def record(self, batch: SampleBatch, where: Any, acts: Flags | None) -> None:
        """Records the time step in the episode, and the previous reward, of the observations last passed to `see`.

        Args:
            batch: The fragment's columns.
            where: Index of the (t, b) entries to fill.
            acts: Mask of the slots that act, [B]; None for all.
        """
        slots: Any = slice(None) if acts is None else acts
        batch[EPISODE_STEPS][where] = self._steps[slots]
        batch[PREV_REWARDS][where] = self._rewards[slots]

    def act(self, actions: NDArray[Any], acts: Flags | None) -> None:
        """Stores the chosen actions of the env slots that act, as past actions of later steps."""
        if VIEW_PREV_ACTIONS in self._seen:
            own = actions.reshape(len(actions), *self._action_space.action_shape)
            _push(self._seen[VIEW_PREV_ACTIONS], own, slice(None) if acts is None else acts)

    def replace_actions(self, actions: NDArray[Any]) -> None:
        """Replaces the last stored actions with those that the envs actually executed, [B, ...]."""
        if VIEW_PREV_ACTIONS in self._seen:
            self._seen[VIEW_PREV_ACTIONS][:, -1] = actions

    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        """Allocates the columns that `record` fills, for T steps and the observation after them, [T + 1, B]."""
        return {
            EPISODE_STEPS: np.full((length + 1, slots), NOT_SHOWN, np.int32),
            PREV_REWARDS: np.zeros((length + 1, slots), np.float32),
        }

    def close(self, batch: SampleBatch, starts: Flags, shown: Flags) -> None:
        """Records the time step and the previous reward of a fragment's closing observations.

        Closing observations follow the fragment's last step; the time step counts from the start of the episode.

        Args:
            batch: The fragment's columns; this method fills the row after the last step.
            starts: Mask of the slots whose closing observation starts an episode, [B].
            shown: Mask of the slots that have a closing observation, [B].
        """
        self.begin(np.zeros(len(starts), np.bool_))  # creates the memory if no slot has acted so far
        steps = np.where(starts, 0, self._steps + 1)
        batch[EPISODE_STEPS][-1] = np.where(shown, steps, NOT_SHOWN)
        batch[PREV_REWARDS][-1] = np.where(shown & (steps > 0), self._given, 0.0)

    def carry(self, batch: SampleBatch) -> None:
        """Adds a column with the preceding steps to a fragment; keeps the fragment's last steps for the next one."""
        if not self._history:
            self._history = self._empty_history(batch)
        batch[HISTORY] = self._history
        self._history = history_after(self._history, batch)

    def before_episode(self, observed: Any) -> dict[str, Any]:
        """Returns the padding for past steps before an episode's start, [K, ...] for an input of K past steps."""
        return padding_of(self._leaves, self._action_space, observed)

    def _empty_history(self, batch: SampleBatch) -> dict[str, Any]:
        """Returns the history before the first fragment: only the padding before an episode's start."""
        slots = batch[EPISODE_STEPS].shape[1]

        def rows(leaf: NDArray[Any]) -> NDArray[Any]:
            return np.repeat(leaf[:, None], slots, axis=1)

        # A row's own observation and reward are not history, and row 0 is the padding before an episode's start.
        nothing = self._nothing or self.before_episode(split(batch["obs"], VIEW_OBS)[VIEW_OBS])
        history = {COLUMNS[name]: map_tree(rows, tree) for name, tree in nothing.items()}
        if "actions" in history:
            history["actions"] = np.concatenate([history["actions"][:1], history["actions"]])
        return history

    def state(self) -> dict[str, Any]:
        """Returns the memory's contents for a checkpoint: step within the episode, rewards, and past steps."""
        return {
            "steps": self._steps.copy(),
            "given": self._given.copy(),
            "seen": map_tree(np.copy, self._seen),
            "history": self._history,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the memory of recent steps from the result of `state()`."""
        self._steps, self._given = np.array(state["steps"], np.int32), np.array(state["given"], np.float64)
        self._seen, self._history = map_tree(np.array, dict(state["seen"])), map_tree(np.array, dict(state["history"]))
        self._nothing = self.before_episode(self._seen.get(VIEW_FRAMES)) if self._seen else {}


def padding_of(leaves_of: ObservationTree, action_space: ActionSpace, observed: Any) -> dict[str, Any]:
    """Returns the padding for past steps before an episode's start, [K, ...] for an input of K past steps.

    Args:
        leaves_of: Network inputs made of the current observation and past steps, a tree of `ObservationLeaf`.
        action_space: The policy's action space, which converts between its own actions and env actions.
        observed: Example tree of observations without the action mask, for the dtypes.
    """
    found: dict[str, Any] = {}

    def stack(leaf: ObservationLeaf, dtype: Any) -> NDArray[Any]:
        return np.repeat(nothing_before(leaf, np.dtype(dtype))[None], leaf.shape[0], axis=0)

    if VIEW_FRAMES in leaves_of:
        found[VIEW_FRAMES] = map_tree(lambda leaf, part: stack(leaf, part.dtype), leaves_of[VIEW_FRAMES], observed)
    if VIEW_PREV_ACTIONS in leaves_of:
        nothing = stack(leaves_of[VIEW_PREV_ACTIONS], action_space.action_dtype)
        found[VIEW_PREV_ACTIONS] = nothing.reshape(len(nothing), *action_space.action_shape)
    if VIEW_PREV_REWARDS in leaves_of:
        found[VIEW_PREV_REWARDS] = stack(leaves_of[VIEW_PREV_REWARDS], np.float32)
    return found


def _push(kept: NDArray[Any], latest: NDArray[Any], slots: Any) -> None:
    """Appends the latest entries [B, ...] to the buffers [B, K, ...] of the given slots, and drops the oldest."""
    kept[slots, :-1] = kept[slots, 1:]
    kept[slots, -1] = latest[slots]
