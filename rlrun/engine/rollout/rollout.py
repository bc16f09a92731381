"""Messages that rollout workers send: fragments of experience with counts, episodes and timings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.moments import Moments
from rlrun.engine.rollout.phases import FragmentTimes

if TYPE_CHECKING:
    from rlrun.engine.rollout.inference.served import Served

DEFAULT_POLICY = "default"
"""Name of the policy if there is only one."""


@dataclass(frozen=True)
class Episode:
    """Statistics of a finished episode: return, length and sums of other numbers.

    Attributes:
        episode_return: Undiscounted sum of raw rewards.
        length: Number of steps.
        info: Numbers in the info of the episode's last step, by name.
        agent: Name of the agent; "" in a single-agent env, and for a multi-agent env as a whole.
        columns: For each per-step number that the env's config names (`columns`), its sum over the episode.
    """

    episode_return: float
    length: int
    info: dict[str, float] = field(default_factory=dict)
    agent: str = ""
    columns: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)  # created for each fragment; a frozen instance would take three times as long
class Rollout:
    """One fragment of experience: a batch for each policy, with counts, finished episodes and timings.

    Attributes:
        worker_index: Index of the collecting worker; 0 is the trial's own process.
        fragment: Index, from 0, of the fragment among all fragments of its worker.
        batches: By policy, the batch [T, B] after the worker's postprocessing; a custom worker may deliver any
            picklable object.
        env_steps: Number of env steps (resets do not count); in a multi-agent env, a step of all agents counts once.
        episodes: Episodes that ended in the fragment, in the order of their ends.
        agent_steps: Number of agent steps by policy; empty in single-agent envs.
        agent_episodes: Finished episodes of agents by policy; empty in single-agent envs.
        missing_finals: Number of agents' episodes truncated without a final observation.
        dropped_rewards: Number of rewards for agents whose episode had ended or had never begun.
        filter_deltas: By policy, statistics of the fragment's observations and returns, by name, to update the
            normalization.
        weights_versions: By policy, the version of the weights with which it acted.
        sample_s: Duration of the collection in seconds.
        raw: By policy, the rows to write to a data set (`RawRows`); empty if the run writes none.
        hooks: Metrics and stop reason that the worker's hooks returned (`HookAnswers`); None without hooks.
        times: Time profile of the collection; None from a worker that measures no times.
        place: Worker's state after the fragment, from which a restarted worker resumes; None if not requested.
        env_slots_restarted: Number of env slots of a restarted worker that began a new episode instead of resuming.
        served: Counts of the requests to an inference server; None if the worker chose the actions.
    """

    worker_index: int
    fragment: int
    batches: dict[str, Any]
    env_steps: int
    episodes: list[Episode] = field(default_factory=list)
    agent_steps: dict[str, int] = field(default_factory=dict)
    agent_episodes: dict[str, list[Episode]] = field(default_factory=dict)
    missing_finals: int = 0
    dropped_rewards: int = 0
    filter_deltas: dict[str, dict[str, Moments]] = field(default_factory=dict)
    weights_versions: dict[str, int] = field(default_factory=dict)
    sample_s: float = 0.0
    raw: dict[str, Any] = field(default_factory=dict)
    hooks: Any = None
    times: FragmentTimes | None = None
    place: Any = None
    env_slots_restarted: int = 0
    served: Served | None = None


def with_weights_version(batch: SampleBatch, version: int) -> SampleBatch:
    """Adds to a batch [T, B] a column with the version of the weights that acted, unless the batch has one."""
    if "weights_version" in batch:
        return batch
    versions = np.empty(batch["valid"].shape, np.int32)
    versions[:] = version
    return SampleBatch(batch, weights_version=versions)
