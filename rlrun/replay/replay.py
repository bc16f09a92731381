"""Interfaces of replay buffers for dataflows: in-process, or sharded over Ray actors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.actors.batch_ref import BatchRef
from rlrun.data.sample_batch import SampleBatch
from rlrun.metric import Metric
from rlrun.replay.replay_config import ReplayConfig

Awaited = tuple[tuple[Any, ...], float]
"""Ray references and a deadline (`time.monotonic`) to wait for; no state changes before one of these is ready."""

GIGABYTES = Metric("replay/gigabytes", "GB", "Memory, or disk space, allocated for the replay buffer")

NOTHING_AWAITED: Awaited = ((), math.inf)


@dataclass(frozen=True)
class ReplayRatio:
    """Replay ratio: deterministic number of minibatches to sample per stored step.

    Attributes:
        training_intensity: Minibatches per step stored after learning starts.
        learning_starts: Steps stored before the first minibatch.
    """

    training_intensity: float
    learning_starts: float

    def minibatches(self, stored_steps: int) -> int:
        """Total number of minibatches allowed after `stored_steps`; at most 0 before learning starts."""
        return math.floor(self.training_intensity * (stored_steps - self.learning_starts) + 1e-9)


class Replay(Protocol):
    """Replay buffer interface: stores workers' fragments and samples minibatches, possibly asynchronously."""

    @property
    def stored_steps(self) -> int:
        """Steps added since the replay was created, overwritten ones included."""

    @property
    def accepts_fragments(self) -> bool:
        """Whether the replay accepts further fragments now: backpressure on the rollout workers."""

    def add(self, worker: int | None, fragment: SampleBatch | BatchRef) -> None:
        """Adds a worker's fragment [T, B] to the replay; asynchronously if the replay is sharded."""

    def sample(self, minibatch_size: int, env_steps: int, ratio: ReplayRatio) -> SampleBatch | None:
        """Samples a minibatch; None if the replay ratio allows none yet, or none has arrived from the shards.

        Args:
            minibatch_size: Number of rows to sample, S.
            env_steps: Total env steps so far, for hyperparameter schedules.
            ratio: Replay ratio that limits the number of minibatches.

        Returns:
            Sampled rows, with their replay `indices` [S] for `update_priorities`.
        """

    @property
    def has_minibatch(self) -> bool:
        """Whether a minibatch requested from a shard has arrived and not been taken yet."""

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Sets the priorities [S] of sampled rows from their TD errors; an empty array changes none."""

    def attend(self) -> None:
        """Processes the shards' finished calls without blocking."""

    def awaited(self) -> Awaited:
        """Ray references and deadline until which the replay has no work to do."""

    def settings(self) -> dict[str, Any]:
        """Settings of the replay for the printed dataflow plan."""

    @property
    def declared_metrics(self) -> Sequence[Metric]:
        """Names and descriptions of the metrics that `metrics` reports."""

    def metrics(self) -> dict[str, float]:
        """Replay metrics for an iteration's results, by name."""

    @property
    def is_saved(self) -> bool:
        """Whether `state` suffices for bit-exact resumption of the run."""

    def state(self) -> dict[str, Any]:
        """State dict: the stored experience (if saved) and the sampler's random state."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the replay from a `state()` dict."""

    def close(self) -> None:
        """Terminates the shards' actors."""


class Experience(Protocol):
    """In-process replay buffer interface, of single transitions or of sequences."""

    @property
    def config(self) -> ReplayConfig:
        """Settings of the replay buffer."""

    @property
    def stored_steps(self) -> int:
        """Steps added since the replay was created, overwritten ones included."""

    @property
    def drawn_batches(self) -> int:
        """Number of minibatches sampled since the replay was created."""

    @property
    def num_ready(self) -> int:
        """Number of transitions or sequences that can be sampled."""

    @property
    def num_bytes(self) -> int:
        """Allocated bytes of the replay buffer."""

    def add(self, stream: int, fragment: SampleBatch) -> int:
        """Adds a fragment [T, B] to the replay and returns its number of valid steps."""

    def sample(self, batch_size: int, env_steps: int) -> SampleBatch:
        """Samples a minibatch of S rows, with their replay `indices` [S]."""

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Sets the priorities [S] of sampled rows from their TD errors; an empty array changes none."""

    @property
    def is_saved(self) -> bool:
        """Whether `state` suffices for bit-exact resumption of the run."""

    def state(self) -> dict[str, Any]:
        """State dict: the stored experience (if saved) and the sampler's random state."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the replay from a `state()` dict."""


class LocalReplay:
    """Synchronous replay in the calling process: a wrapper of an `Experience` buffer.

    Args:
        experience: Replay buffer that stores the fragments.
        workers: Indices of the rollout workers.
    """

    accepts_fragments = True
    has_minibatch = False
    declared_metrics = (GIGABYTES,)

    def __init__(self, experience: Experience, workers: Sequence[int]) -> None:
        self.experience = experience
        self._streams = {worker: stream for stream, worker in enumerate(workers)}

    @property
    def stored_steps(self) -> int:
        """Steps added since the replay was created, overwritten ones included."""
        return self.experience.stored_steps

    def add(self, worker: int | None, fragment: SampleBatch | BatchRef) -> None:
        """Adds a worker's fragment [T, B] to the replay."""
        assert isinstance(fragment, SampleBatch)  # references are delivered only to shards
        self.experience.add(0 if worker is None else self._streams[worker], fragment)

    def sample(self, minibatch_size: int, env_steps: int, ratio: ReplayRatio) -> SampleBatch | None:
        """Samples a minibatch; None if the replay ratio allows none yet."""
        experience = self.experience
        if experience.drawn_batches >= ratio.minibatches(experience.stored_steps) or not experience.num_ready:
            return None
        return experience.sample(minibatch_size, env_steps)

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Sets the priorities [S] of sampled rows from their TD errors; an empty array changes none."""
        self.experience.update_priorities(indices, priorities)

    def attend(self) -> None:
        """No-op: the replay has no shards."""
        return

    def awaited(self) -> Awaited:
        """No references and no deadline: in-process sampling never blocks."""
        return NOTHING_AWAITED

    def settings(self) -> dict[str, Any]:
        """Settings of the replay for the printed dataflow plan."""
        return {"capacity": self.experience.config.capacity}

    def metrics(self) -> dict[str, float]:
        """Metric of the memory or disk space allocated by the replay."""
        return {GIGABYTES.name: self.experience.num_bytes / 1e9}

    @property
    def is_saved(self) -> bool:
        """Whether checkpoints include the stored experience."""
        return self.experience.is_saved

    def state(self) -> dict[str, Any]:
        """State dict: the stored experience (if saved) and the sampler's random state."""
        return self.experience.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the replay from a `state()` dict."""
        self.experience.load_state(state)

    def close(self) -> None:
        """No-op: the replay owns no processes."""
        return
