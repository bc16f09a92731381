"""Protocol of recorders, which step envs or worlds with behavior policies and record fragments.

`RolloutWorker` handles what all recorders share: noise, transformed rewards, statistics, phases and weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import CLOSING_COLUMNS, SampleBatch
from rlrun.engine.data.tree import leaves
from rlrun.engine.envs.episode_position import EpisodePosition
from rlrun.engine.rollout.rollout import Episode


class AgentRows(NamedTuple):
    """Rows of one agent's episode in a slot of a world.

    Attributes:
        slot: The slot.
        rows: Row numbers of the episode in the fragment, [N].
        agent: Name of the agent.
        seed: Seed of the world's episode.
    """

    slot: int
    rows: NDArray[np.int64]
    agent: str
    seed: int


@dataclass(slots=True)  # not frozen: a frozen one takes three times as long to make, once for each fragment
class Recorded:
    """Raw recorded experience of one fragment, before postprocessing.

    Attributes:
        batches: By policy, the columns of the behavior policy, with raw `obs` [T + 1, B, ...], raw `rewards` (float64),
            `terminateds`, `truncateds` and `valid` [T, B].
        filled: By policy, mask [T, B] of entries with an observation, including final observations of episodes.
        episodes: Episodes of the env or the worlds that ended in the fragment, in the order of their ends.
        env_steps: Number of env or world steps in the fragment.
        agent_episodes: By policy, agents' episodes that ended in the fragment; empty for single-agent envs.
        closing: By policy, target rows [N] and slots [N] of final observations that are only in the closing row; each
            must be copied to the row after the episode's last step.
        missing_finals: Number of agents' episodes truncated without a final observation.
        dropped_rewards: Number of rewards for agents that had ended, or were never born.
        began: Position of each env or world before the fragment.
        begins: By policy, mask [B] of slots whose rows do not continue the previous fragment's.
        agent_rows: By policy, the rows of agents' episodes in worlds; empty unless requested.
        closes: By policy, mask [B] of slots with an observation in the closing row; empty for single-agent envs.
        env_step_s: Seconds in `step` of the env, or the worlds.
        inference_s: Seconds in calls of behavior policies.
    """

    batches: dict[str, SampleBatch]
    filled: dict[str, NDArray[np.bool_]]
    episodes: list[Episode]
    env_steps: int
    agent_episodes: Mapping[str, list[Episode]] = field(default_factory=dict)
    closing: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict)
    missing_finals: int = 0
    dropped_rewards: int = 0
    began: Sequence[EpisodePosition] = ()
    begins: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    agent_rows: Mapping[str, Sequence[AgentRows]] = field(default_factory=dict)
    closes: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    env_step_s: float = 0.0
    inference_s: float = 0.0


class Recorder(Protocol):
    """Protocol of a recorder of successive fragments.

    Attributes:
        slots: B, slots in a batch, by policy.
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
        """Returns the env states as plain data (seeds and action logs) for replay; empty before the first fragment."""
        ...

    def place(self) -> Any:
        """Returns the recorder's `state()`, with only the latest fragment's part (`LogTail`) of the action log."""
        ...

    def load_state(self, state: Any) -> dict[str, NDArray[np.bool_]]:
        """Restores the recorder from `state()` by replaying the current episodes.

        Returns:
            By policy, mask [B] of slots that could not be restored exactly and began a new episode instead.

        Raises:
            ValueError: The state is malformed, or of another number of slots.
        """
        ...

    def close(self) -> None:
        """Closes the env or the worlds."""
        ...


@runtime_checkable
class SeededRecorder(Recorder, Protocol):
    """Protocol of a recorder of single-agent envs, whose episodes can be seeded."""

    def begin(self, seeds: Sequence[int]) -> None:
        """Resets all env slots with the given seeds; the current episodes are discarded.

        Args:
            seeds: Seed of each env slot's episode, [B].

        Raises:
            UsageError: The backend cannot seed single env slots.
            EnvError: The env raised.
        """
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
    """Copies final observations and their values from the closing row to the rows after the episodes' last steps.

    Args:
        batch: Batch of the fragment, changed in place.
        rows: Target row of each final observation, [N].
        slots: Slot of each final observation, [N].
    """
    for name in CLOSING_COLUMNS:
        if name in batch:
            for leaf in leaves(batch[name]):
                leaf[rows, slots] = leaf[-1, slots]
