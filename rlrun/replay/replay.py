"""What a dataflow asks of a replay, wherever it is kept: in this process, or in shards in processes of their own."""

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
"""Ray references, and a moment on the clock of `time.monotonic`, of which one has to come before there is news."""

GIGABYTES = Metric("replay/gigabytes", "GB", "Memory, or disk, that is set aside for the replay buffer")

NOTHING_AWAITED: Awaited = ((), math.inf)


@dataclass(frozen=True)
class ReplayRatio:
    """How many minibatches the steps in a replay allow: counted, not drawn.

    Attributes:
        training_intensity: Minibatches for every step that is stored after learning starts.
        learning_starts: Steps that are stored before the first minibatch.
    """

    training_intensity: float
    learning_starts: float

    def minibatches(self, stored_steps: int) -> int:
        """Returns how many minibatches so many stored steps allow in all; not above 0 before learning starts."""
        return math.floor(self.training_intensity * (stored_steps - self.learning_starts) + 1e-9)


class Replay(Protocol):
    """Experience that workers' fragments are stored into and minibatches are sampled from."""

    @property
    def stored_steps(self) -> int:
        """Steps stored since it was empty."""
        ...

    @property
    def accepts_fragments(self) -> bool:
        """Whether it keeps up, so that fragments are welcome."""
        ...

    def add(self, worker: int | None, fragment: SampleBatch | BatchRef) -> None:
        """Stores a fragment [T, B] of a worker; in shards without waiting for it."""
        ...

    def sample(self, minibatch_size: int, env_steps: int, ratio: ReplayRatio) -> SampleBatch | None:
        """Returns a minibatch if the stored steps allow another one and it is here, else None.

        Args:
            minibatch_size: Rows in it, S.
            env_steps: Env steps so far, for schedules.
            ratio: How many minibatches the stored steps allow.

        Returns:
            Rows of experience, and in `indices` [S] where they are kept.
        """
        ...

    @property
    def has_minibatch(self) -> bool:
        """Whether a minibatch that was asked for is here already."""
        ...

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Sets the priorities of rows that were sampled, [S]; none where a loss gives none."""
        ...

    def attend(self) -> None:
        """Receives what shards have answered; never waits."""
        ...

    def awaited(self) -> Awaited:
        """Returns what has to come before there is news."""
        ...

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        ...

    @property
    def declared_metrics(self) -> Sequence[Metric]:
        """What `metrics` returns, declared."""
        ...

    def metrics(self) -> dict[str, float]:
        """Returns what the result of an iteration reports."""
        ...

    @property
    def is_saved(self) -> bool:
        """Whether `state` holds all that is needed to go on bit for bit."""
        ...

    def state(self) -> dict[str, Any]:
        """Returns everything that is kept, and the state of the draws."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""
        ...

    def close(self) -> None:
        """Ends the processes of shards."""
        ...


class Experience(Protocol):
    """Kept experience in one process, of single steps or of sequences; a stream is one worker's fragments."""

    @property
    def config(self) -> ReplayConfig:
        """Its settings."""
        ...

    @property
    def stored_steps(self) -> int:
        """Steps stored since it was empty."""
        ...

    @property
    def drawn_batches(self) -> int:
        """Minibatches sampled since then."""
        ...

    @property
    def num_ready(self) -> int:
        """Steps or sequences that can be sampled."""
        ...

    @property
    def num_bytes(self) -> int:
        """Bytes that are set aside."""
        ...

    def add(self, stream: int, fragment: SampleBatch) -> int:
        """Stores a fragment [T, B] and returns how many steps it holds."""
        ...

    def sample(self, batch_size: int, env_steps: int) -> SampleBatch:
        """Samples a minibatch of S rows, with their `indices` [S]."""
        ...

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Sets the priorities of rows that were sampled, [S]; none where a loss gives none."""
        ...

    @property
    def is_saved(self) -> bool:
        """Whether `state` holds all that is needed to go on bit for bit."""
        ...

    def state(self) -> dict[str, Any]:
        """Returns everything that is kept, and the state of the draws."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""
        ...


class LocalReplay:
    """A replay in this process.

    Args:
        experience: Where the fragments are kept.
        workers: The workers' indices; each has a stream of its own.
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
        """Sets the priorities of rows that were sampled, [S]; none where a loss gives none."""
        self.experience.update_priorities(indices, priorities)

    def attend(self) -> None:
        """Has nobody to hear from."""
        return

    def awaited(self) -> Awaited:
        """Waits for nobody."""
        return NOTHING_AWAITED

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"capacity": self.experience.config.capacity}

    def metrics(self) -> dict[str, float]:
        """Returns how much memory, or disk, is set aside."""
        return {GIGABYTES.name: self.experience.num_bytes / 1e9}

    @property
    def is_saved(self) -> bool:
        """Whether checkpoints hold the experience."""
        return self.experience.is_saved

    def state(self) -> dict[str, Any]:
        """Returns everything that is kept, and the state of the draws."""
        return self.experience.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""
        self.experience.load_state(state)

    def close(self) -> None:
        """Has nothing to end."""
        return
