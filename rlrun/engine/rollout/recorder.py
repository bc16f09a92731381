"""Interface of recorders, which step envs with policies and record fragments of experience.

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
    """Rows of a fragment that belong to one agent's episode.

    Attributes:
        slot: Slot of the policy's batch in which the agent acted.
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
    """Experience of one fragment as recorded, before postprocessing: T steps in B slots.

    Attributes:
        batches: By policy, the columns of the acting policy, with raw `obs` [T + 1, B, ...], raw `rewards` (float64),
            `terminateds`, `truncateds` and `valid` [T, B].
        filled: By policy, mask [T, B] of entries with an observation, including final observations of episodes.
        episodes: Episodes of the env or the worlds that ended in the fragment, in the order of their ends.
        env_steps: Number of env or world steps in the fragment.
        agent_episodes: By policy, agents' episodes that ended in the fragment; empty for single-agent envs.
        closing: By policy, target rows [N] and slots [N] of final observations recorded only after the last step; each
            must be copied to the row after the episode's last step.
        missing_finals: Number of agents' episodes truncated without a final observation.
        dropped_rewards: Number of rewards for agents whose episode had ended or had never begun.
        began: Episode number and step of each env or world before the fragment.
        begins: By policy, mask [B] of slots whose first row begins an episode instead of going on with one.
        agent_rows: By policy, the rows of agents' episodes in worlds; empty unless requested.
        closes: By policy, mask [B] of slots with an observation after the last step; empty for single-agent envs.
        env_step_s: Seconds in `step` of the env, or the worlds.
        inference_s: Seconds in forward passes of policies.
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
    """Interface of an object that records one fragment of experience after another.

    Attributes:
        slots: B, number of slots in a batch, by policy.
    """

    slots: Mapping[str, int]

    def record(self, noise: Mapping[str, NDArray[np.float32]]) -> Recorded:
        """Records one fragment of T steps in B slots.

        Args:
            noise: For each policy, its exploration noise for the fragment, [T, B, ...].

        Raises:
            EnvError: The env or a world raised, or returned something outside its spaces.
        """
        ...

    def state(self) -> Any:
        """Returns seeds and actions from which running episodes can be replayed; empty before the first fragment."""
        ...

    def place(self) -> Any:
        """Returns the same data as `state()`, but with each action log cut to the latest fragment."""
        ...

    def load_state(self, state: Any) -> dict[str, NDArray[np.bool_]]:
        """Restores the envs from `state()`, by replaying the actions of their current episodes.

        Returns:
            For each policy, a mask [B] of slots that could not be restored exactly and began a new episode instead.

        Raises:
            ValueError: The state is malformed, or has another number of slots.
        """
        ...

    def close(self) -> None:
        """Closes the env or the multi-agent worlds."""
        ...


@runtime_checkable
class SeededRecorder(Recorder, Protocol):
    """Interface of a recorder for single-agent envs whose episodes can be started with given seeds."""

    def begin(self, seeds: Sequence[int]) -> None:
        """Resets all env slots with the given seeds, which ends the current episodes without recording them.

        Args:
            seeds: Seed of each env slot's episode, [B].

        Raises:
            UsageError: The backend cannot seed single env slots.
            EnvError: The env raised.
        """
        ...


def record_row(recorded: Any, t: int, observations: Any) -> None:
    """Copies the observations of B slots into row t of buffers for T steps and the observation after them."""
    if isinstance(recorded, np.ndarray):
        recorded[t] = observations
    elif isinstance(recorded, dict):
        for key, part in recorded.items():
            record_row(part, t, observations[key])
    else:
        for part, observed in zip(recorded, observations, strict=True):
            record_row(part, t, observed)


def place_finals(batch: SampleBatch, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
    """Copies final observations and their values to the rows that follow the last steps of their episodes.

    They were recorded in the closing row, after the fragment's last step.

    Args:
        batch: Batch of the fragment, changed in place.
        rows: Target row of each final observation, [N].
        slots: Slot of each final observation, [N].
    """
    for name in CLOSING_COLUMNS:
        if name in batch:
            for leaf in leaves(batch[name]):
                leaf[rows, slots] = leaf[-1, slots]
