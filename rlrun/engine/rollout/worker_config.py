"""Settings of rollout workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlrun.engine.envs.episode_position import EpisodeSeeds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlrun.engine.envs.env_config import EnvConfig
    from rlrun.engine.replay.replay import Lend
    from rlrun.engine.rollout.rewards import RewardSettings
    from rlrun.engine.rollout.worker_behavior import WorkerBehavior
    from rlrun.engine.worlds.mapping import PolicyMapping

LOCAL_INDEX = 0
"""Index of the worker in the trial's own process."""


@dataclass(frozen=True)
class WorkerConfig:
    """Settings of a rollout worker, its envs and its policies; can be pickled.

    Attributes:
        env: Config of the env or multi-agent world.
        num_envs: Number of envs that the worker steps.
        fragment_length: T, steps in a fragment.
        seed: Root seed of the trial.
        behaviors: Behavior policies by name.
        rewards: Reward transforms by policy.
        mapping: Mapping of agents to policies in a multi-agent env; None for a single-agent env.
        slots: Maximum number of each policy's simultaneous agents in a multi-agent env; empty for a single-agent env.
        worker_index: Index of the worker: 0 in the trial's own process, from 1 in actors.
        num_workers: Total number of workers, including the local one.
        first_fragment: Index of the worker's first fragment; above 0 for a restarted worker, so that its noise and
            episodes do not repeat those of the lost worker.
        records: Whether rollouts include the rows to write to a data set.
        hooks: Settings of each hook by its import path.
        episodes_per_seed: Number of consecutive episodes of a worker that share a seed; above 1, fragments have the
            column `EPISODE`.
        lenders: By policy, a function that lends memory for fragments; set by replay buffers in the worker's process.
        groups: Number of groups of envs that share the worker's index; above 1 only with an inference server.
        group: Index of the group whose envs are stepped; `num_envs` counts only these envs.
        server: Name of the trial's inference server; "" if the worker chooses actions itself.
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
    records: bool = False
    hooks: Sequence[Mapping[str, Mapping[str, Any]]] = ()
    episodes_per_seed: int = 1
    lenders: dict[str, Lend] = field(default_factory=dict)
    groups: int = 1
    group: int = 0
    server: str = ""

    @property
    def seeds(self) -> EpisodeSeeds:
        """Seeds of the episodes of this worker, or of its group of envs."""
        first = self.group * self.num_envs
        return EpisodeSeeds(self.seed, self.worker_index, episodes_per_seed=self.episodes_per_seed, first_slot=first)

    @property
    def env_name(self) -> str:
        """Name of the env and the worker, for messages."""
        return f"env {self.env.id}: worker {self.worker_index}"

    @property
    def first_episodes(self) -> list[int]:
        """Index of each env slot's first episode; a restarted worker skips indices, so that no episode is repeated."""
        return [self.first_fragment * self.fragment_length] * self.num_envs
