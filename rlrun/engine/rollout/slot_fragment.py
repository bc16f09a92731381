"""Multi-agent fragment while it is recorded, with one row per step of the env or per decision of an agent.

Each agent has a slot, a place in its policy's batch. With the clock `parallel`, a row is a step of the multi-agent envs
(worlds). With `per_agent`, a row is one decision of an agent, and slots fill their rows independently. A decision's
step lasts until the agent's next observation or the end of its episode; rewards until then are summed. A step that
lasts beyond the end of a fragment is moved to the next fragment, with its recorded columns and the version of the
weights that chose its action.

With either clock, a fragment covers T steps of the worlds, so no slot has more than T rows.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.sample_batch import ACTS, CLOSING_COLUMNS, EPISODE_STEPS, LOGGED, SampleBatch
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.data.views import NOT_SHOWN
from rlrun.engine.rollout.slot_rows import RowBuffers, RowForm, SlotOwners
from rlrun.engine.worlds.vector_world import SlotRows

Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]
Floats = NDArray[np.float32]

Closed = tuple[SampleBatch, Flags, tuple[Indices, Indices]]
"""Closed fragment: batch, mask [T, B] of filled rows, and (rows, slots) to which final observations must be copied."""

NO_ROW = -1


@dataclass(frozen=True)
class PendingSteps:
    """Agents' unfinished steps at a fragment's end: actions whose reward or next observation is not known yet.

    Attributes:
        slots: Mask [B] of the slots with an unfinished step.
        columns: Recorded columns of the N unfinished steps by name, [N, ...].
    """

    slots: Flags
    columns: dict[str, Any]

    @classmethod
    def none(cls, slots: int) -> PendingSteps:
        """Creates the object for B slots without unfinished steps."""
        return cls(np.zeros(slots, np.bool_), {})


class SlotFragment(ABC):
    """Base class of multi-agent fragments that are being recorded, for the agents of one policy.

    Each agent has one of the B slots in the policy's batch; a fragment covers T steps of the worlds.

    Args:
        form: Shapes and names of the fragment's columns.
        owners: Tracks the agents that act in the slots.
        states: Global states of the W worlds (multi-agent envs) before the first step, [W, ...]; None without global
            states.
        carried: Unfinished steps of the previous fragment.

    Attributes:
        owners: The agents in the slots.
        acted: Mask [T, B] of steps and slots, set where a slot's agent acted.
        rewards: Rewards of each slot's agent by step of the worlds, [T, B].
        columns: Recorded info entries by name, one row per world step, [T, B].
        closes: Mask [B] of the slots for which an observation after the last step is recorded.
        carried: Unfinished steps of the previous fragment; after `close`, the unfinished steps of this fragment.
        inference_s: Seconds in forward passes of the policy.
    """

    def __init__(self, form: RowForm, owners: SlotOwners, states: NDArray[Any] | None, carried: PendingSteps) -> None:
        shape = form.length, form.slots
        self.owners = owners
        self.acted, self._terminateds, self._truncateds = np.zeros((3, *shape), np.bool_)
        self.rewards = np.zeros(shape)
        self.columns = {name: np.zeros(shape) for name in form.columns}
        self.closes: Flags = np.zeros(form.slots, np.bool_)
        self.carried = carried
        self.inference_s = 0.0
        self._form = form
        self._behavior = form.behavior
        self._buffers = RowBuffers(form, states)
        versions = self._buffers.batch.get("weights_version")  # recorded for each step if there is a server
        self._versions: NDArray[np.int32] = (
            np.full(shape, form.behavior.weights_version, np.int32) if versions is None else versions
        )
        self._in_step: Flags = np.zeros(form.slots, np.bool_)
        owners.begin_fragment()

    @property
    def ends(self) -> Flags:
        """Mask [T, B], set at the steps where the episode of a slot's agent ended."""
        ended: Flags = self._terminateds | self._truncateds
        return ended

    @abstractmethod
    def act(self, t: int, rows: SlotRows, states: NDArray[Any] | None, noise: Floats) -> Any:
        """Runs the policy in all slots for one step, records the actions, and returns them for the multi-agent envs.

        The policy is also evaluated at final observations, whose values are bootstrap targets.
        """

    def take(self, t: int, rows: SlotRows) -> bool:
        """Records the rewards and episode ends of one step; returns whether any agent's episode ended."""
        self.rewards[t], self._terminateds[t], self._truncateds[t] = rows.rewards, rows.terminateds, rows.truncateds
        for name, column in self.columns.items():
            column[t] = rows.columns[name]
        self._behavior.take_rewards(self.rewards[t])
        ended = rows.terminateds | rows.truncateds
        self.owners.just_ended = ended & self._in_step
        return bool(ended.any())

    @abstractmethod
    def step_of(self, row: int, slot: int) -> int:
        """Returns the env step, counted from the fragment's start, whose observation a given row of a slot holds."""

    @abstractmethod
    def actions_by_step(self) -> NDArray[Any]:
        """Returns the actions that the agents in B slots took at each of T steps, [T, B, ...]."""

    @abstractmethod
    def close(self, rows: SlotRows, states: NDArray[Any] | None) -> Closed:
        """Completes the fragment: records the observations after the last step, and assembles the batch.

        Args:
            rows: Observations and episode ends of the slots after the fragment's last step.
            states: Global states of the W multi-agent envs after the last step, [W, ...].

        Returns:
            The batch, the mask [T, B] of filled rows, and the rows and slots to which final observations must be copied
            from the row after the last step.
        """

    @abstractmethod
    def row_of(self, t: int, slot: int) -> int:
        """Returns the row of the fragment that records the action of a slot's agent at a given step of the env."""

    def replace_actions(self, t: int, taken: Mapping[int, tuple[Any, int | None]]) -> None:
        """Replaces the recorded actions of one step with the actions that external clients chose for their agents.

        Actions not chosen with the policy's current weights are marked in the column `LOGGED`, if the fragment has it.

        Args:
            t: Index of the step.
            taken: Env actions by slot, each with the version of the weights that chose it; None for other slots.
        """
        for slot, (action, version) in taken.items():
            row = self.row_of(t, slot)
            own = self._behavior.action_space.from_env(map_tree(lambda leaf: np.asarray(leaf)[None], action))
            self._buffers.batch["actions"][row, slot] = own[0]
            if LOGGED in self._buffers.batch and version != self._behavior.weights_version:
                self._buffers.batch[LOGGED][row, slot] = True

    def _show_closing_row(self, rows: SlotRows, states: NDArray[Any] | None) -> Flags:
        """Records the observations after the last step; returns the mask [B] of slots that have one."""
        shown: Flags = rows.acts | self.owners.just_ended
        self._buffers.show(self._form.length, shown, rows.observations, states)
        self._behavior.collector.close(self._buffers.batch, rows.starts, shown)
        return shown

    def _batch(self, columns: Mapping[str, NDArray[np.float64]], **rows: NDArray[Any]) -> SampleBatch:
        """Returns the batch with recorded info entries and further columns, each [T, B]."""
        batch = self._buffers.batch
        batch.update(obs=self._buffers.observed, **rows)
        batch.update({name: column.astype(np.float32) for name, column in columns.items()})
        return batch


class StepFragment(SlotFragment):
    """Multi-agent fragment with one row per step of the env (clock `parallel`)."""

    @override
    def act(self, t: int, rows: SlotRows, states: NDArray[Any] | None, noise: Floats) -> Any:
        self.acted[t] = rows.acts
        self._in_step = self.acted[t]
        self._buffers.filled[t] = shown = rows.acts | self.owners.just_ended
        if shown.all():
            self._buffers.show_all(t, rows.observations, states)
            acting = None
        elif shown.any():
            self._buffers.show(t, shown, rows.observations, states)
            acting = shown
        else:
            return self._form.idle
        asked = time.perf_counter()
        actions = self._behavior.act(rows.observations, noise, self._buffers.batch, t, rows.starts, acting)
        self.inference_s += time.perf_counter() - asked
        return actions

    @override
    def step_of(self, row: int, slot: int) -> int:
        return row

    @override
    def row_of(self, t: int, slot: int) -> int:
        return t

    @override
    def actions_by_step(self) -> NDArray[Any]:
        actions: NDArray[Any] = self._buffers.batch["actions"]
        return actions

    @override
    def close(self, rows: SlotRows, states: NDArray[Any] | None) -> Closed:
        self.closes = self._show_closing_row(rows, states)
        if ACTS in self._behavior.collector.world_columns:
            self._buffers.batch[ACTS] = np.concatenate([self.acted, rows.acts[None]])
        batch = self._batch(
            self.columns,
            rewards=self.rewards,
            terminateds=self._terminateds,
            truncateds=self._truncateds,
            valid=self.acted,
            weights_version=self._versions,
        )
        nowhere = np.zeros(0, np.int64)
        return batch, self._buffers.filled, (nowhere, nowhere)


class DecisionFragment(SlotFragment):
    """Multi-agent fragment with one row per decision of an agent (clock `per_agent`), for turn-based envs.

    Each agent's slot fills its rows independently. An agent's unfinished step from the previous fragment becomes row 0
    of its slot.
    """

    def __init__(self, form: RowForm, owners: SlotOwners, states: NDArray[Any] | None, carried: PendingSteps) -> None:
        super().__init__(form, owners, states, carried)
        slots, shape = form.slots, (form.length, form.slots)
        self._next = np.zeros(slots, np.int64)
        self._open = np.full(slots, NO_ROW, np.int64)
        self._open_at = np.full(shape, NO_ROW, np.int64)
        self._row_rewards = np.zeros(shape)
        self._row_columns = {name: np.zeros(shape) for name in self.columns}
        self._valid = np.zeros(shape, np.bool_)
        if carried.slots.any():
            self._put(carried)

    def _put(self, carried: PendingSteps) -> None:
        """Writes the unfinished steps of the previous fragment into row 0 of their slots."""
        slots = carried.slots.nonzero()[0]
        self._next[slots], self._open[slots] = 1, 0
        self._valid[0, slots] = self._buffers.filled[0, slots] = True
        recorded = self._recorded()
        for name, column in carried.columns.items():
            for leaf, kept in zip(leaves(recorded[name]), leaves(column), strict=True):
                leaf[0, slots] = kept

    def _recorded(self) -> dict[str, Any]:
        """Returns the buffers of all columns of a step, by name."""
        return {
            **self._buffers.batch,
            "obs": self._buffers.observed,
            "rewards": self._row_rewards,
            "weights_version": self._versions,
            **self._row_columns,
        }

    @override
    def act(self, t: int, rows: SlotRows, states: NDArray[Any] | None, noise: Floats) -> Any:
        self.acted[t] = rows.acts
        self._open[self.owners.just_ended] = NO_ROW
        shown = rows.acts | self.owners.just_ended
        slots = shown.nonzero()[0]
        actions = self._form.idle
        if len(slots):
            own, batch = self._next[slots], self._buffers.batch
            asked = time.perf_counter()
            actions = self._behavior.act(rows.observations, noise, batch, t, rows.starts, shown, own)
            self.inference_s += time.perf_counter() - asked
            self._buffers.show(own, slots, rows.observations, states)
            self._buffers.filled[own, slots] = True
            self._next[slots] += 1
            acting = rows.acts.nonzero()[0]
            self._open[acting] = self._next[acting] - 1
            self._valid[self._open[acting], acting] = True
        self._open_at[t] = self._open
        self._in_step = self._open != NO_ROW
        return actions

    @override
    def step_of(self, row: int, slot: int) -> int:
        # A row without an action holds a final observation, which was shown one step after the end. The observation of
        # a carried step is in the closing row, and was shown when its agent last acted.
        if row == self._form.length and not self.carried.slots[slot]:
            return row
        own = self._open[slot] if row == self._form.length else row
        at: list[int] = (self.acted[:, slot] & (self._open_at[:, slot] == own)).nonzero()[0].tolist()
        if at:
            return at[0]
        began = self.step_of(row - 1, slot) if row else NO_ROW
        ends = self.ends[:, slot]
        return next((t + 1 for t in range(max(began, 0), len(ends)) if row and ends[t]), 0)

    @override
    def row_of(self, t: int, slot: int) -> int:
        return int(self._open_at[t, slot])

    @override
    def actions_by_step(self) -> NDArray[Any]:
        recorded = self._buffers.batch["actions"]
        actions: NDArray[Any] = np.zeros_like(recorded)
        at, slots = self.acted.nonzero()
        actions[at, slots] = recorded[self._open_at[at, slots], slots]
        return actions

    @override
    def close(self, rows: SlotRows, states: NDArray[Any] | None) -> Closed:
        at, slots = (self._open_at != NO_ROW).nonzero()
        own = self._open_at[at, slots]
        np.add.at(self._row_rewards, (own, slots), self.rewards[at, slots])
        for name, column in self._row_columns.items():
            np.add.at(column, (own, slots), self.columns[name][at, slots])
        terminateds: Flags = np.zeros(self.rewards.shape, np.bool_)
        truncateds = terminateds.copy()
        np.logical_or.at(terminateds, (own, slots), self._terminateds[at, slots])
        np.logical_or.at(truncateds, (own, slots), self._truncateds[at, slots])
        shown = self._show_closing_row(rows, states)
        self._carry(rows.acts)
        self.closes = shown | self.carried.slots
        batch = self._batch(
            self._row_columns,
            rewards=self._row_rewards,
            terminateds=terminateds,
            truncateds=truncateds,
            valid=self._valid,
            weights_version=self._versions,
        )
        finals = (self.owners.just_ended & (self._next < self._form.length)).nonzero()[0]
        return batch, self._buffers.filled, (self._next[finals], finals)

    def _carry(self, acts: Flags) -> None:
        """Moves unfinished steps out of the fragment; their observations become the closing rows of their slots."""
        carries = (self._open != NO_ROW) & ~self.owners.just_ended & ~acts
        slots = carries.nonzero()[0]
        self.carried = PendingSteps.none(self._form.slots)
        if not len(slots):
            return
        own, batch, columns = self._open[slots], self._buffers.batch, self._recorded()
        kept = {name: map_tree(lambda leaf: leaf[own, slots], column) for name, column in columns.items()}
        self.carried = PendingSteps(carries, kept)
        self._valid[own, slots] = self._buffers.filled[own, slots] = False
        for name in CLOSING_COLUMNS:
            if name in columns:
                for leaf, values in zip(leaves(columns[name]), leaves(kept[name]), strict=True):
                    leaf[-1, slots] = values
        if EPISODE_STEPS in batch:
            batch[EPISODE_STEPS][own, slots] = NOT_SHOWN
