"""Assignment of agents to a policy's slots, with running returns and ended episodes of the current fragment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.rollout.episode_sums import EpisodeSums
from rlrun.engine.rollout.rollout import Episode

Flags = NDArray[np.bool_]


class SlotOwners:
    """Bookkeeping of the episodes in a policy's slots: agent, return and length.

    Args:
        slots: B, number of slots.
        columns: Names of additional per-step numbers, summed over an episode.

    Attributes:
        just_ended: Mask [B] of slots whose episode ended with the last step; their row holds the final observation.
    """

    def __init__(self, slots: int, columns: Iterable[str]) -> None:
        self.just_ended: Flags = np.zeros(slots, np.bool_)
        self._sums = EpisodeSums(slots, columns)
        self._agents: dict[tuple[int, int], str] = {}
        self._infos: dict[tuple[int, int], dict[str, Any]] = {}

    def begin_fragment(self) -> None:
        """Clears the recorded episode ends at the start of a fragment."""
        self._agents, self._infos = {}, {}

    def note_ends(self, t: int, ended: Flags, owners: Sequence[str], infos: Mapping[int, Mapping[str, Any]]) -> None:
        """Records the agents whose episodes ended in a step.

        Args:
            t: Index of the step within the fragment.
            ended: Mask [B] of the slots whose episode ended.
            owners: The agent in each slot, [B].
            infos: Infos of the ended agents, by slot.
        """
        for slot in ended.nonzero()[0].tolist():
            self._agents[t, slot] = owners[slot]
            if slot in infos:
                self._infos[t, slot] = dict(infos[slot])

    def agent_in(self, slot: int, t: int) -> str | None:
        """Returns the agent of the first episode that ended in a slot at or after step t; None if there is none."""
        return next((agent for (end, where), agent in self._agents.items() if where == slot and end >= t), None)

    def episodes(
        self, rewards: NDArray[np.float64], ends: Flags, acted: Flags, columns: Mapping[str, NDArray[np.float64]]
    ) -> list[Episode]:
        """Adds a fragment's steps [T, B] to the agents' episodes, and returns the episodes that ended in it."""
        return self._sums.add(rewards, ends, acted, self._infos, self._agents, columns)

    def state(self) -> dict[str, Any]:
        """Returns the running episode sums kept across fragments."""
        return {
            "just_ended": self.just_ended.copy(),
            "returns": self._sums.returns.copy(),
            "lengths": self._sums.lengths.copy(),
            "columns": {name: sums.copy() for name, sums in self._sums.columns.items()},
        }

    def load_state(self, state: Mapping[str, Any], kept: Flags) -> None:
        """Restores the running episode sums from `state()`.

        Args:
            state: State from `state`.
            kept: Mask [B] of slots whose worlds were restored; the others start new episodes.
        """
        self.just_ended = np.array(state["just_ended"], np.bool_) & kept
        self._sums.returns = np.where(kept, np.array(state["returns"], np.float64), 0.0)
        self._sums.lengths = np.where(kept, np.array(state["lengths"], np.int64), 0)
        for name, sums in self._sums.columns.items():  # 0 for a column that was not recorded then
            sums[:] = np.where(kept, np.array(state.get("columns", {}).get(name, sums), np.float64), 0.0)
