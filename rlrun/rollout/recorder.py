"""What a recorder is: it decides who acts when and which row that fills, steps the env or the worlds, and keeps books.

What is the same whoever writes the rows stands around it, in `RolloutWorker`: noise, rewards to learn from, statistics,
phases, weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import CLOSING_COLUMNS, SampleBatch
from rlrun.data.tree import leaves
from rlrun.rollout.rollout import Episode


@dataclass(frozen=True)
class Recorded:
    """What was recorded in one fragment.

    Attributes:
        batches: By policy, what acting recorded, with raw `obs` [T + 1, B, ...], raw `rewards` (float64),
            `terminateds`, `truncateds` and `valid` [T, B].
        filled: By policy, whether a row holds an observation, a step's or an episode's final one, [T, B].
        episodes: Episodes of the env, or the worlds, that ended in it, in the order of their ends.
        env_steps: Steps that envs or worlds took in it.
        agent_episodes: By policy, episodes of its agents that ended in it; none where every env has one agent.
        closing: By policy, the row and slot of each final observation that stands in the closing row although rows
            before that one are empty, two [N]: it has to stand behind the step that it follows as well.
        missing_finals: Agents whose episode was cut off without a final observation.
        dropped_rewards: Rewards that no agent earned.
        env_step_s: Seconds in steps of the env, or the worlds.
        inference_s: Seconds in which behavior policies acted.
    """

    batches: dict[str, SampleBatch]
    filled: dict[str, NDArray[np.bool_]]
    episodes: list[Episode]
    env_steps: int
    agent_episodes: Mapping[str, list[Episode]] = field(default_factory=dict)
    closing: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict)
    missing_finals: int = 0
    dropped_rewards: int = 0
    env_step_s: float = 0.0
    inference_s: float = 0.0


class Recorder(Protocol):
    """Records fragments, one after the other.

    Attributes:
        slots: By policy, B, slots in a batch.
    """

    slots: Mapping[str, int]

    def record(self, noise: Mapping[str, NDArray[np.float32]]) -> Recorded:
        """Records one fragment.

        Args:
            noise: By policy, the noise of the fragment, [T, B, ...].

        Raises:
            EnvError: The env or a world raised, or returned something outside its spaces.
        """
        ...

    def state(self) -> Any:
        """Returns where it is, as plain data; empty before the first fragment."""
        ...

    def place(self) -> Any:
        """Returns what `state` returns behind a fragment; of the actions only the fragment's, as a `LogTail`."""
        ...

    def load_state(self, state: Any) -> dict[str, NDArray[np.bool_]]:
        """Returns to where a recorder was, by replaying its episodes.

        Returns:
            By policy, which slots could not be brought back exactly and began a new episode instead, [B].

        Raises:
            ValueError: If this is no state of so many slots.
        """
        ...

    def close(self) -> None:
        """Frees what the env or the worlds hold."""
        ...


def record_row(recorded: Any, t: int, observations: Any) -> None:
    """Copies a tree of observations [B, ...] into row t of a tree of buffers [T + 1, B, ...]."""
    if isinstance(recorded, np.ndarray):
        recorded[t] = observations
    elif isinstance(recorded, dict):
        for key, part in recorded.items():
            record_row(part, t, observations[key])
    else:
        for part, observed in zip(recorded, observations, strict=True):
            record_row(part, t, observed)


def place_finals(batch: SampleBatch, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
    """Copies final observations, and what the network makes of them, from the closing row to behind their steps.

    Args:
        batch: The fragment, in place.
        rows: Where each stands, [N].
        slots: In which slot, [N].
    """
    for name in CLOSING_COLUMNS:
        if name in batch:
            for leaf in leaves(batch[name]):
                leaf[rows, slots] = leaf[-1, slots]
