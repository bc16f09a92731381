"""Arrays of a policy's multi-agent fragment of T steps in B slots: observations and the policy's columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import CLOSING_COLUMNS, LOGGED, WORLD_STATE, SampleBatch
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.envs.spaces import empty_batch
from rlrun.engine.rollout.episode_sums import EpisodeSums
from rlrun.engine.rollout.recorder import record_row
from rlrun.engine.rollout.rollout import Episode
from rlrun.engine.rollout.worker_behavior import WorkerBehavior

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class RowForm:
    """Shapes and names of the arrays in which a policy's multi-agent fragment is recorded.

    Attributes:
        behavior: The policy that acts.
        space: Space of observations.
        length: T, steps in a fragment.
        slots: Number of agents' slots in the batch, B.
        columns: Names of the info entries recorded as columns.
        marks_logged: Whether fragments have a column `LOGGED`, for actions not chosen by the policy.
    """

    behavior: WorkerBehavior
    space: gymnasium.Space[Any]
    length: int
    slots: int
    columns: Sequence[str]
    marks_logged: bool = False

    @cached_property
    def idle(self) -> Any:
        """Returns placeholder actions for B slots, used where no agent acts."""
        return self.behavior.action_space.to_env(self.blank_fragment()["actions"][0])

    def blank_fragment(self) -> SampleBatch:
        """Allocates the arrays of a fragment, filled with zeros; value estimates are filled with NaN."""
        batch = self.behavior.collector.allocate(self.length, self.slots)
        for name, column in batch.items():
            if name not in CLOSING_COLUMNS:
                for leaf in leaves(column):
                    leaf.fill(0)
        if self.marks_logged:
            batch[LOGGED] = np.zeros((self.length, self.slots), np.bool_)
        return batch


class RowBuffers:
    """Arrays of a multi-agent fragment's rows; the rows of slots without an agent stay zero.

    A fragment has T steps, and the observation after them. Each agent has one of the B slots.

    Args:
        form: Shapes and names of the arrays.
        states: Global states of the W multi-agent envs (worlds), [W, ...]; None without global states.

    Attributes:
        batch: Columns that the policy records.
        observed: Observations, a tree of [T + 1, B, ...].
        filled: Mask [T, B] of entries with an observation.
    """

    def __init__(self, form: RowForm, states: NDArray[Any] | None) -> None:
        length, slots = form.length, form.slots
        self.batch = form.blank_fragment()
        self.observed = map_tree(
            lambda leaf: np.zeros((length + 1, *leaf.shape), leaf.dtype), empty_batch(form.space, slots)
        )
        self.filled: Flags = np.zeros((length, slots), np.bool_)
        self._world_states: NDArray[Any] | None = None
        if WORLD_STATE in form.behavior.collector.world_columns:
            assert states is not None  # the policy was built for a world with global states
            self._slots_in_a_world = slots // len(states)
            self._world_states = np.zeros((length + 1, slots, *states.shape[1:]), states.dtype)
            self.batch[WORLD_STATE] = self._world_states

    def show_all(self, t: int, observations: Any, states: NDArray[Any] | None) -> None:
        """Writes the observations of all B slots, and the global states of the W envs, into row t of a fragment."""
        record_row(self.observed, t, observations)
        if self._world_states is not None:
            self._world_states[t] = self._of_slots(states)

    def show(self, rows: Any, slots: Any, observations: Any, states: NDArray[Any] | None) -> None:
        """Writes the observations of some slots into the rows of a fragment.

        Args:
            rows: Target row, or one target row for each slot.
            slots: The slots, as a mask [B] or as indices.
            observations: Observations of all slots, a tree of [B, ...].
            states: Global states of the W multi-agent envs, [W, ...].
        """
        for leaf, observed in zip(leaves(self.observed), leaves(observations), strict=True):
            leaf[rows, slots] = observed[slots]
        if self._world_states is not None:
            self._world_states[rows, slots] = self._of_slots(states)[slots]

    def _of_slots(self, states: NDArray[Any] | None) -> NDArray[Any]:
        """Repeats the worlds' states [W, ...] for each slot, [B, ...]."""
        assert states is not None
        return np.repeat(states, self._slots_in_a_world, axis=0)


class SlotOwners:
    """Tracks which agent acts in each slot of a policy's batch, and the return and length of the agent's episode.

    Args:
        slots: B, number of slots.
        columns: Names of additional per-step numbers, summed over an episode.

    Attributes:
        just_ended: Mask [B] of the slots whose episode ended with the last step; their next row holds the final
            observation.
    """

    def __init__(self, slots: int, columns: Iterable[str]) -> None:
        self.just_ended: Flags = np.zeros(slots, np.bool_)
        self._sums = EpisodeSums(slots, columns)
        self._agents: dict[tuple[int, int], str] = {}
        self._infos: dict[tuple[int, int], dict[str, Any]] = {}

    def begin_fragment(self) -> None:
        """Clears the record of episodes that ended in the previous fragment."""
        self._agents, self._infos = {}, {}

    def note_ends(self, t: int, ended: Flags, owners: Sequence[str], infos: Mapping[int, Mapping[str, Any]]) -> None:
        """Records which agents' episodes ended in a step.

        Args:
            t: Index of the step within the fragment.
            ended: Mask [B] of the slots whose episode ended.
            owners: The agent in each slot, [B].
            infos: Infos of the agents whose episodes ended, by slot.
        """
        for slot in ended.nonzero()[0].tolist():
            self._agents[t, slot] = owners[slot]
            if slot in infos:
                self._infos[t, slot] = dict(infos[slot])

    def agent_in(self, slot: int, t: int) -> str | None:
        """Returns the agent whose episode is the first to end in a slot at or after step t; None if none ends."""
        return next((agent for (end, where), agent in self._agents.items() if where == slot and end >= t), None)

    def episodes(
        self, rewards: NDArray[np.float64], ends: Flags, acted: Flags, columns: Mapping[str, NDArray[np.float64]]
    ) -> list[Episode]:
        """Adds the rewards of a fragment to the agents' episodes, and returns the episodes that ended in it."""
        return self._sums.add(rewards, ends, acted, self._infos, self._agents, columns)

    def state(self) -> dict[str, Any]:
        """Returns each slot's episode return and length so far, for a checkpoint."""
        return {
            "just_ended": self.just_ended.copy(),
            "returns": self._sums.returns.copy(),
            "lengths": self._sums.lengths.copy(),
            "columns": {name: sums.copy() for name, sums in self._sums.columns.items()},
        }

    def load_state(self, state: Mapping[str, Any], kept: Flags) -> None:
        """Restores each slot's episode return and length so far from the result of `state()`.

        Args:
            state: Result of `state()`.
            kept: Mask [B] of the slots whose env was restored; the other slots start new episodes.
        """
        self.just_ended = np.array(state["just_ended"], np.bool_) & kept
        self._sums.returns = np.where(kept, np.array(state["returns"], np.float64), 0.0)
        self._sums.lengths = np.where(kept, np.array(state["lengths"], np.int64), 0)
        for name, sums in self._sums.columns.items():  # a column missing in the saved state starts at 0
            sums[:] = np.where(kept, np.array(state.get("columns", {}).get(name, sums), np.float64), 0.0)
