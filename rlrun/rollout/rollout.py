"""What a rollout worker delivers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlrun.data.sample_batch import SampleBatch
from rlrun.functional.moments import Moments
from rlrun.rollout.phases import FragmentTimes

DEFAULT_POLICY = "default"
"""Name of the policy where there is only one."""


@dataclass(frozen=True)
class Episode:
    """A finished episode.

    Attributes:
        episode_return: Sum of its raw rewards.
        length: Its steps.
        info: Numbers in the info of its last step, by name.
        agent: Whose it was; "" of an env with one agent, and of a world as a whole.
        columns: Sums of the columns that the env's config names, by name.
    """

    episode_return: float
    length: int
    info: dict[str, float] = field(default_factory=dict)
    agent: str = ""
    columns: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rollout:
    """One fragment of experience.

    Attributes:
        worker_index: Which worker made it; 0 is the trial's own process.
        fragment: Its number in that worker, from 0.
        batches: Columns [T, B] by policy, or what operators on the worker made of them; a worker of another kind may
            deliver anything that can be pickled.
        env_steps: Steps that envs or worlds took in it (rows that only began an episode do not count).
        episodes: Episodes that ended in it, in the order of their ends.
        agent_steps: By policy, steps of its agents in it; empty where every env has one agent.
        agent_episodes: By policy, episodes of its agents that ended in it; empty where every env has one agent.
        missing_finals: Agents whose episode was cut off without a final observation.
        dropped_rewards: Rewards that no agent earned.
        filter_deltas: By policy, statistics of what it saw, by name.
        weights_versions: By policy, version of the weights that acted.
        sample_s: Seconds it took.
        times: What they went into; None from a worker that does not measure it.
        place: Where its sampler stands behind it, if that is to be told: one that is made anew goes on from there.
        env_slots_restarted: Env slots of a sampler made anew that began a new episode instead.
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
    times: FragmentTimes | None = None
    place: Any = None
    env_slots_restarted: int = 0


@dataclass(frozen=True)
class JoinedRollouts:
    """What an aggregator delivers.

    Attributes:
        aggregator: Its index.
        batch: Columns [T, B1 + B2 + ...], with the versions of the weights that acted in `weights_version`; None if no
            batch is full.
        fragments: The rollouts in it, in their order, without their batches.
        worker_restarts: How many of its workers were made anew since its last answer.
    """

    aggregator: int
    batch: SampleBatch | None
    fragments: tuple[Rollout, ...]
    worker_restarts: int


def with_weights_version(batch: SampleBatch, version: int) -> SampleBatch:
    """Returns a batch [T, B] with a column that says which weights acted in it, unless it has one."""
    if "weights_version" in batch:
        return batch
    return SampleBatch(batch, weights_version=np.full(batch["valid"].shape, version, np.int32))
