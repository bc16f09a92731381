"""Interface of replays for dataflows: a buffer in this process, or shards in Ray actors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.actors.batch_ref import BatchRef
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.settings.metric import Metric

if TYPE_CHECKING:
    from rlrun.engine.replay.transition_reader import UnreadMinibatches

Awaited = tuple[tuple[Any, ...], float]
"""Ray references and a deadline (`time.monotonic`) to wait for; no state changes before one of these is ready."""

NOTHING_AWAITED: Awaited = ((), math.inf)
"""Value of `awaited` for a replay that needs no other process."""

GIGABYTES = Metric("replay/gigabytes", "GB", "Memory or disk space allocated for the replay buffer")
"""Metric of every replay buffer."""
RESTARTS = Metric("replay_shard_restarts", "shards", "Replay shards that were restarted and so lost their data")
"""Metric of a replay buffer in shards."""


@dataclass(frozen=True)
class ReplayRatio:
    """Limit on the number of minibatches that are sampled per stored step.

    Attributes:
        training_intensity: Minibatches for each step that is stored after learning starts.
        learning_starts: Number of steps to store before the first minibatch.
    """

    training_intensity: float
    learning_starts: float

    def minibatches(self, stored_steps: int) -> int:
        """Returns the total number of minibatches allowed by the time `stored_steps` steps are stored.

        The number is at most 0 before learning starts.
        """
        return math.floor(self.training_intensity * (stored_steps - self.learning_starts) + 1e-9)


class Lend(Protocol):
    """Function that lends memory for a worker's next fragment, at the place where the fragment will be stored."""

    def __call__(self, length: int, after: Any, actions: Any) -> SampleBatch | None:
        """Returns columns of a fragment of T steps, whose `obs` [T + 1, B, ...] begins with the current observations.

        Args:
            length: Steps in the fragment, T.
            after: The column `obs` of the worker's previous fragment.
            actions: The column `actions` of that fragment, [T, B, ...].

        Returns:
            The columns, to be filled; None if no memory, or only memory of other dtypes, can be lent now.
        """
        ...


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

    @property
    def learns_priorities(self) -> bool:
        """Whether sampling depends on the priorities that `update_priorities` sets."""

    def sample(
        self, minibatch_size: int, env_steps: int, ratio: ReplayRatio, at_most: int = 1, *, unread: bool = False
    ) -> SampleBatch | UnreadMinibatches | None:
        """Samples minibatches; None if the replay ratio allows none yet, or if none has arrived from other processes.

        Args:
            minibatch_size: Number of rows of a minibatch.
            env_steps: Total env steps so far, for hyperparameter schedules.
            ratio: Replay ratio that limits the number of minibatches.
            at_most: Maximum number of minibatches, whose rows are concatenated: S in total.
            unread: Whether the learner can draw and read the rows; otherwise they are read here.

        Returns:
            Sampled rows, with their replay `indices` [S] for `update_priorities`; or, with `unread`, minibatches that
            are drawn and read later.
        """

    @property
    def has_minibatch(self) -> bool:
        """Whether a minibatch requested from another process has arrived and has not been returned by `sample` yet."""

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Sets the priorities of sampled rows from their TD errors; an empty array of errors changes nothing."""

    def attend(self) -> None:
        """Handles messages from the replay's other processes that have arrived, without blocking."""

    def awaited(self) -> Awaited:
        """Returns the Ray references to wait for, any one of which suffices, and the deadline of the wait."""

    def settings(self) -> dict[str, Any]:
        """Settings of the replay that the printed dataflow plan shows, by name."""

    def metrics(self) -> dict[str, float]:
        """Metrics of the replay by name, for the result row that a trial writes after each iteration."""

    @property
    def is_saved(self) -> bool:
        """Whether `state` holds everything that a resumed run needs to continue exactly, bit for bit."""

    def state(self) -> dict[str, Any]:
        """Returns the random state of sampling, and the stored experience if checkpoints include it."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the replay from the dict that `state()` returned."""

    def close(self) -> None:
        """Ends the replay's processes, if it has any."""


class ReplayFactory(Protocol):
    """Function that creates an empty replay for the experience of one policy."""

    def __call__(self, config: ReplayConfig, *, n_step: int, gamma: float, sequences: bool = False) -> Replay:
        """Creates an empty replay of n-step transitions, or of sequences for a recurrent network.

        Args:
            config: Settings of the replay.
            n_step: Length n of the n-step return, before bootstrapping.
            gamma: Discount factor.
            sequences: Whether minibatches consist of sequences; `config` must then be a `SequenceReplayConfig`.
        """
