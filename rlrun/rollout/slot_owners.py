"""Who owns the slots of a policy: whose episodes go on in them, and whose have ended in this fragment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.rollout.episode_sums import EpisodeSums
from rlrun.rollout.rollout import Episode

Flags = NDArray[np.bool_]


class SlotOwners:
    """Books of the episodes in a policy's slots.

    Args:
        slots: B.
        columns: Further numbers of each step that are added up over an episode, by name.

    Attributes:
        just_ended: In which slots the last step ended an episode: its final observation is shown now, [B].
    """

    def __init__(self, slots: int, columns: Iterable[str]) -> None:
        self.just_ended: Flags = np.zeros(slots, np.bool_)
        self._sums = EpisodeSums(slots, columns)
        self._agents: dict[tuple[int, int], str] = {}
        self._infos: dict[tuple[int, int], dict[str, Any]] = {}

    def begin_fragment(self) -> None:
        """Forgets which episodes ended in the fragment before."""
        self._agents, self._infos = {}, {}

    def note_ends(self, t: int, ended: Flags, owners: Sequence[str], infos: Mapping[int, Mapping[str, Any]]) -> None:
        """Notes whose episodes ended in a step.

        Args:
            t: The step.
            ended: In which slots, [B].
            owners: The agent in each slot, [B].
            infos: What their infos say, by slot.
        """
        for slot in ended.nonzero()[0].tolist():
            self._agents[t, slot] = owners[slot]
            if slot in infos:
                self._infos[t, slot] = dict(infos[slot])

    def agent_in(self, slot: int, t: int) -> str | None:
        """Returns whose episode was the first to end in a slot from step t on; None if none did."""
        return next((agent for (end, where), agent in self._agents.items() if where == slot and end >= t), None)

    def episodes(
        self, rewards: NDArray[np.float64], ends: Flags, acted: Flags, columns: Mapping[str, NDArray[np.float64]]
    ) -> list[Episode]:
        """Adds a fragment's steps [T, B] to the agents' episodes, and returns those that ended in it."""
        return self._sums.add(rewards, ends, acted, self._infos, self._agents, columns)

    def state(self) -> dict[str, Any]:
        """Returns what goes on from fragment to fragment."""
        return {
            "just_ended": self.just_ended.copy(),
            "returns": self._sums.returns.copy(),
            "lengths": self._sums.lengths.copy(),
            "columns": {name: sums.copy() for name, sums in self._sums.columns.items()},
        }

    def load_state(self, state: Mapping[str, Any], kept: Flags) -> None:
        """Restores `state()`.

        Args:
            state: It.
            kept: Which slots' worlds were brought back, [B]; in the others new episodes begin.
        """
        self.just_ended = np.array(state["just_ended"], np.bool_) & kept
        self._sums.returns = np.where(kept, np.array(state["returns"], np.float64), 0.0)
        self._sums.lengths = np.where(kept, np.array(state["lengths"], np.int64), 0)
        for name, sums in self._sums.columns.items():  # of a column that was not recorded then nothing is known
            sums[:] = np.where(kept, np.array(state.get("columns", {}).get(name, sums), np.float64), 0.0)
