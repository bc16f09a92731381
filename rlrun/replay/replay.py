"""Interface of a replay to dataflows: in this process, or sharded over actors."""

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
"""Ray references, and a time on the clock of `time.monotonic`; nothing changes before one of them is reached."""

GIGABYTES = Metric("replay/gigabytes", "GB", "Memory, or disk space, allocated for the replay buffer")

NOTHING_AWAITED: Awaited = ((), math.inf)


@dataclass(frozen=True)
class ReplayRatio:
    """Number of minibatches that the stored steps allow: counted, not drawn at random.

    Attributes:
        training_intensity: Minibatches per step stored after learning starts.
        learning_starts: Steps stored before the first minibatch.
    """

    training_intensity: float
    learning_starts: float

    def minibatches(self, stored_steps: int) -> int:
        """Minibatches allowed in all after a number of stored steps; not above 0 before learning starts."""
        return math.floor(self.training_intensity * (stored_steps - self.learning_starts) + 1e-9)


class Replay(Protocol):
    """A replay: stores the fragments of workers, and samples minibatches."""

    @property
    def stored_steps(self) -> int:
        """Steps stored since it was empty."""

    @property
    def accepts_fragments(self) -> bool:
        """Whether it keeps up with storing, so that more fragments can come."""

    def add(self, worker: int | None, fragment: SampleBatch | BatchRef) -> None:
        """Stores a fragment [T, B] of a worker; shards do so asynchronously."""

    def sample(self, minibatch_size: int, env_steps: int, ratio: ReplayRatio) -> SampleBatch | None:
        """Samples a minibatch if the stored steps allow another one and it has arrived, else returns None.

        Args:
            minibatch_size: Rows in it, S.
            env_steps: Env steps so far, for schedules.
            ratio: Number of minibatches that the stored steps allow.

        Returns:
            Rows of experience, with the `indices` [S] by which their priorities are set.
        """

    @property
    def has_minibatch(self) -> bool:
        """Whether a requested minibatch has arrived."""

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Sets the priorities of sampled rows, [S]; empty if the loss gives none."""

    def attend(self) -> None:
        """Receives the answers of shards; never waits."""

    def awaited(self) -> Awaited:
        """The Ray references, and the time, to wait for."""

    def settings(self) -> dict[str, Any]:
        """Settings that the printed plan shows."""

    @property
    def declared_metrics(self) -> Sequence[Metric]:
        """Declarations of the metrics that `metrics` reports."""

    def metrics(self) -> dict[str, float]:
        """Metrics of an iteration's result."""

    @property
    def is_saved(self) -> bool:
        """Whether `state` holds all that is needed to continue bit for bit."""

    def state(self) -> dict[str, Any]:
        """The stored experience, and the state of the random draws."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores `state()`."""

    def close(self) -> None:
        """Ends the processes of shards."""


class Experience(Protocol):
    """A replay buffer in one process, of single steps or of sequences."""

    @property
    def config(self) -> ReplayConfig:
        """Its settings."""

    @property
    def stored_steps(self) -> int:
        """Steps stored since it was empty."""

    @property
    def drawn_batches(self) -> int:
        """Minibatches sampled since then."""

    @property
    def num_ready(self) -> int:
        """Steps or sequences that can be sampled."""

    @property
    def num_bytes(self) -> int:
        """Bytes allocated."""

    def add(self, stream: int, fragment: SampleBatch) -> int:
        """Stores a fragment [T, B] and returns how many steps it holds."""

    def sample(self, batch_size: int, env_steps: int) -> SampleBatch:
        """Samples a minibatch of S rows, with their `indices` [S]."""

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Sets the priorities of sampled rows, [S]; empty if the loss gives none."""

    @property
    def is_saved(self) -> bool:
        """Whether `state` holds all that is needed to continue bit for bit."""

    def state(self) -> dict[str, Any]:
        """The stored experience, and the state of the random draws."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores `state()`."""


class LocalReplay:
    """A replay in this process.

    Args:
        experience: The buffer that stores the fragments.
        workers: Indices of the workers that collect.
    """

    accepts_fragments = True
    has_minibatch = False
    declared_metrics = (GIGABYTES,)

    def __init__(self, experience: Experience, workers: Sequence[int]) -> None:
        self.experience = experience
        self._streams = {worker: stream for stream, worker in enumerate(workers)}

    @property
    def stored_steps(self) -> int:
        """Steps stored since it was empty."""
        return self.experience.stored_steps

    def add(self, worker: int | None, fragment: SampleBatch | BatchRef) -> None:
        """Stores a fragment [T, B] of a worker."""
        assert isinstance(fragment, SampleBatch)  # references are delivered only to shards
        self.experience.add(0 if worker is None else self._streams[worker], fragment)

    def sample(self, minibatch_size: int, env_steps: int, ratio: ReplayRatio) -> SampleBatch | None:
        """Samples a minibatch if the stored steps allow another one."""
        experience = self.experience
        if experience.drawn_batches >= ratio.minibatches(experience.stored_steps) or not experience.num_ready:
            return None
        return experience.sample(minibatch_size, env_steps)

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Sets the priorities of sampled rows, [S]; empty if the loss gives none."""
        self.experience.update_priorities(indices, priorities)

    def attend(self) -> None:
        """Does nothing: there are no shards."""
        return

    def awaited(self) -> Awaited:
        """Nothing: sampling never waits."""
        return NOTHING_AWAITED

    def settings(self) -> dict[str, Any]:
        """Settings that the printed plan shows."""
        return {"capacity": self.experience.config.capacity}

    def metrics(self) -> dict[str, float]:
        """Memory, or disk space, allocated."""
        return {GIGABYTES.name: self.experience.num_bytes / 1e9}

    @property
    def is_saved(self) -> bool:
        """Whether checkpoints hold the experience."""
        return self.experience.is_saved

    def state(self) -> dict[str, Any]:
        """The stored experience, and the state of the random draws."""
        return self.experience.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores `state()`."""
        self.experience.load_state(state)

    def close(self) -> None:
        """Does nothing: there are no processes."""
        return
