"""Interface of recorders, which step envs with policies and record fragments of experience.

`RolloutWorker` handles everything that does not depend on the recorder: exploration noise, clipping or scaling of
rewards, statistics, time profiles and weights.
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
    """Rows of a multi-agent fragment that belong to one agent's episode.

    Attributes:
        slot: Slot of the policy's batch in which the agent acted.
        rows: Row numbers of the episode in the fragment, [N].
        agent: Name of the agent.
        seed: Seed of the multi-agent env's episode.
    """

    slot: int
    rows: NDArray[np.int64]
    agent: str
    seed: int


@dataclass(slots=True)  # created for each fragment; a frozen instance would take three times as long
class Recorded:
    """Experience of one fragment as recorded, before postprocessing: T steps in B slots of each policy.

    A slot is an env's place in the batch; in a multi-agent env (world), an agent's place in its policy's batch.

    Attributes:
        batches: By policy, the recorded columns, with raw `obs` [T + 1, B, ...], raw `rewards` (float64),
            `terminateds`, `truncateds` and `valid` [T, B].
        filled: By policy, mask [T, B] of entries with an observation, including final observations of episodes.
        episodes: Episodes of the env or the worlds that ended in the fragment, in the order in which they ended.
        env_steps: Number of env or world steps in the fragment.
        agent_episodes: By policy, agents' episodes that ended in the fragment; empty for single-agent envs.
        closing: By policy, rows [N] and slots [N] to which final observations must be copied from the row after the
            last step, which holds them.
        missing_finals: Number of agents' episodes truncated without a final observation.
        dropped_rewards: Number of rewards for agents whose episode had ended or had never begun.
        began: Episode number and step of each env or world before the fragment.
        begins: By policy, mask [B] of the slots whose first row is the start of an episode.
        agent_rows: By policy, the rows of agents' episodes in worlds; empty unless requested.
        closes: By policy, mask [B] of the slots for which an observation after the last step is recorded; empty for
            single-agent envs.
        env_step_s: Seconds spent in the envs' `step` and in recording the results.
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
    """Interface of an object that steps envs, and records one fragment of experience after another.

    Attributes:
        slots: Number of slots B in the batch of each policy.
    """

    slots: Mapping[str, int]

    def record(self, noise: Mapping[str, NDArray[np.float32]]) -> Recorded:
        """Records one fragment of T steps in the B slots of each policy.

        Args:
            noise: For each policy, its exploration noise for the fragment, [T, B, ...].

        Raises:
            EnvError: An env raised, or returned something outside its spaces.
        """
        ...

    def state(self) -> Any:
        """Returns seeds and actions from which running episodes can be recreated; empty before the first fragment."""
        ...

    def place(self) -> Any:
        """Returns a short form of `state()`, sent after each fragment: action logs hold only the newest actions."""
        ...

    def load_state(self, state: Any) -> dict[str, NDArray[np.bool_]]:
        """Restores the envs from the result of `state()`, by repeating the actions of their current episodes.

        Returns:
            For each policy, a mask [B] of slots that could not be restored exactly and began a new episode instead.

        Raises:
            ValueError: The state is malformed, or has a different number of slots.
        """
        ...

    def close(self) -> None:
        """Closes the single-agent envs or multi-agent worlds."""
        ...


@runtime_checkable
class SeededRecorder(Recorder, Protocol):
    """Interface of a recorder for single-agent envs whose episodes can be started with given seeds."""

    def begin(self, seeds: Sequence[int]) -> None:
        """Resets all env slots with the given seeds; the current episodes are abandoned.

        Args:
            seeds: Seed of each env slot's episode, [B].

        Raises:
            UsageError: The backend cannot seed single env slots.
            EnvError: The env raised.
        """
        ...


def record_row(recorded: Any, t: int, observations: Any) -> None:
    """Copies the observations of B slots into row t of the buffers [T + 1, B, ...] of a fragment of T steps."""
    if recorded.__class__ is np.ndarray:
        recorded[t] = observations
    elif isinstance(recorded, dict):
        for key, part in recorded.items():
            record_row(part, t, observations[key])
    else:
        for part, observed in zip(recorded, observations, strict=True):
            record_row(part, t, observed)


def place_finals(batch: SampleBatch, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
    """Copies episodes' final observations, and their values, to the rows after the episodes' last steps.

    Final observations are first recorded in the closing row, which follows the fragment's last step.

    Args:
        batch: Batch of the fragment, changed in place.
        rows: Target row of each final observation, [N].
        slots: Slot of each final observation, [N].
    """
    for name in CLOSING_COLUMNS:
        if name in batch:
            for leaf in leaves(batch[name]):
                leaf[rows, slots] = leaf[-1, slots]
