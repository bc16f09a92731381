"""What a worker is made from that steps envs with behavior policies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlrun.envs.env_config import EnvConfig
    from rlrun.rollout.rewards import RewardSettings
    from rlrun.rollout.worker_behavior import WorkerBehavior
    from rlrun.worlds.mapping import PolicyMapping

LOCAL_INDEX = 0
"""Index of the worker in the trial's own process."""


@dataclass(frozen=True)
class WorkerConfig:
    """What a rollout worker is made from; picklable.

    Attributes:
        env: The environment, or a world of many agents.
        num_envs: Env slots, or worlds, side by side.
        fragment_length: T, steps in a fragment.
        seed: Root seed of the trial.
        behaviors: What acts, by policy.
        rewards: How rewards become those that are learned from, by policy.
        mapping: Which agent of a world is whose; None for an env with one agent.
        slots: Slots of each policy in each world; empty for an env with one agent.
        worker_index: 0 in the trial's own process, from 1 in actors.
        num_workers: How many workers there are, the local one included.
        first_fragment: Number of its first fragment; above 0 for a worker made anew in place of a dead one, whose
            noise and episodes then go on with numbers that the dead one never reached.
    """

    env: EnvConfig
    num_envs: int
    fragment_length: int
    seed: int
    behaviors: Mapping[str, WorkerBehavior]
    rewards: Mapping[str, RewardSettings]
    mapping: PolicyMapping | None = None
    slots: Mapping[str, int] = field(default_factory=dict)
    worker_index: int = 0
    num_workers: int = 1
    first_fragment: int = 0
