"""Episodes of a policy's agents in the evaluation of a multi-agent world, which may be shorter than the world's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.rollout.episode_sums import numbers_in
from rlrun.engine.rollout.evaluation import EvaluationResult, numbers_by_name
from rlrun.engine.worlds.vector_world import SlotRows


class AgentEpisodes:
    """Accumulates returns, lengths, column sums and infos for the episodes of a policy's agents.

    Args:
        slots: B, number of slots over all worlds.
        width: K, number of slots per world.
        columns: Names of the numbers extracted from agents' infos.
    """

    def __init__(self, slots: int, width: int, columns: Sequence[str]) -> None:
        self._sums, self._steps = np.zeros(slots), np.zeros(slots, np.int64)
        self._columns = {name: np.zeros(slots) for name in columns}
        self._width = width
        self._found: list[tuple[int, float, int, dict[str, float], dict[str, float]]] = []

    def act(self, acts: NDArray[np.bool_]) -> None:
        """Increments the episode lengths of acting agents."""
        self._steps += acts

    def take(
        self, shown: SlotRows, infos: Mapping[int, Mapping[str, Any]], current: NDArray[np.int64], episodes: int
    ) -> None:
        """Adds a step's rewards and columns, and records agents' episodes that ended in evaluated world episodes.

        Args:
            shown: Results of the step for the policy's agents, by slot.
            infos: Infos of the agents whose episodes ended in the step, by slot.
            current: Number of each world's current episode, [W].
            episodes: Number of evaluated episodes.
        """
        self._sums += shown.rewards
        for name, sums in self._columns.items():
            sums += shown.columns[name]
        for slot in (shown.terminateds | shown.truncateds).nonzero()[0]:
            episode = int(current[slot // self._width])
            if episode < episodes:
                columns = {name: float(sums[slot]) for name, sums in self._columns.items()}
                numbers = numbers_in(infos.get(int(slot), {}))
                self._found.append((episode, float(self._sums[slot]), int(self._steps[slot]), columns, numbers))
            self._sums[slot], self._steps[slot] = 0.0, 0
            for sums in self._columns.values():
                sums[slot] = 0.0

    def result(self) -> EvaluationResult:
        """Returns the episodes of the policy's agents, in the order of the world's episodes."""
        found = sorted(self._found, key=lambda life: life[0])
        columns = {name: [life[3][name] for life in found] for name in self._columns}
        returns, lengths = [life[1] for life in found], [life[2] for life in found]
        return EvaluationResult(returns, lengths, columns=columns, infos=numbers_by_name(life[4] for life in found))
