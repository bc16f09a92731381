"""Interface of replays for dataflows: a buffer in this process, or shards in Ray actors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.actors.batch_ref import BatchRef
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.settings.metric import Metric

Awaited = tuple[tuple[Any, ...], float]
"""Ray references and a deadline (`time.monotonic`) to wait for; no state changes before one of these is ready."""

GIGABYTES = Metric("replay/gigabytes", "GB", "Memory, or disk space, allocated for the replay buffer")
"""Metric of every replay buffer."""
RESTARTS = Metric("replay_shard_restarts", "shards", "Replay shards that were restarted, empty")
"""Metric of a replay buffer in shards."""


@dataclass(frozen=True)
class ReplayRatio:
    """Number of minibatches to sample per stored step.

    Attributes:
        training_intensity: Minibatches for each step that is stored after learning starts.
        learning_starts: Steps stored before the first minibatch.
    """

    training_intensity: float
    learning_starts: float

    def minibatches(self, stored_steps: int) -> int:
        """Total number of minibatches that may be sampled after `stored_steps`; at most 0 before learning starts."""
        return math.floor(self.training_intensity * (stored_steps - self.learning_starts) + 1e-9)


class Replay(Protocol):
    """Interface of a replay: stores workers' fragments and samples minibatches, possibly in other processes."""

    @property
    def stored_steps(self) -> int:
        """Number of steps stored so far, including those that have been overwritten."""

    @property
    def accepts_fragments(self) -> bool:
        """Whether a fragment can be added now; otherwise the rollout workers have to wait (backpressure)."""

    def add(self, worker: int | None, fragment: SampleBatch | BatchRef) -> None:
        """Stores a worker's fragment of T steps in B env slots; does not wait if another process stores it."""

    def sample(self, minibatch_size: int, env_steps: int, ratio: ReplayRatio, at_most: int = 1) -> SampleBatch | None:
        """Samples minibatches; None if the replay ratio allows none yet, or if none has arrived from other processes.

        Args:
            minibatch_size: Number of rows of a minibatch.
            env_steps: Total env steps so far, for hyperparameter schedules.
            ratio: Replay ratio that limits the number of minibatches.
            at_most: Maximum number of minibatches, whose rows are concatenated: S in total.

        Returns:
            Sampled rows, with their replay `indices` [S] for `update_priorities`.
        """

    @property
    def has_minibatch(self) -> bool:
        """Whether a minibatch requested from a shard has arrived and not been taken yet."""

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Sets the priorities of sampled rows, given their indices and TD errors; empty errors change nothing."""

    def attend(self) -> None:
        """Handles the answers of other processes that have arrived, without blocking."""

    def awaited(self) -> Awaited:
        """Ray references to wait for (any one of them suffices), and the deadline of the wait."""

    def settings(self) -> dict[str, Any]:
        """Settings of the replay, as shown in the printed dataflow plan."""

    def metrics(self) -> dict[str, float]:
        """Metrics of the replay for an iteration's result, by name."""

    @property
    def is_saved(self) -> bool:
        """Whether a run resumed from `state` would continue exactly, bit for bit."""

    def state(self) -> dict[str, Any]:
        """Stored experience (if checkpoints include it), and the random state of sampling."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the replay from the dict that `state()` returned."""

    def close(self) -> None:
        """Ends the replay's processes, if it has any."""


class ReplayFactory(Protocol):
    """Function that creates an empty replay for a policy's fragments."""

    def __call__(self, config: ReplayConfig, *, n_step: int, gamma: float, sequences: bool = False) -> Replay:
        """Creates an empty replay of n-step transitions, or of sequences for a recurrent network.

        Args:
            config: Settings of the replay.
            n_step: Length n of the n-step return, before bootstrapping.
            gamma: Discount factor.
            sequences: Whether minibatches are of sequences, by a `SequenceReplayConfig`.
        """
