"""Replay buffers in the trial's own process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.actors.batch_ref import BatchRef
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.replay.replay import GIGABYTES, NOTHING_AWAITED, Awaited, Lend, ReplayRatio
from rlrun.engine.replay.replay_config import ReplayConfig, SequenceReplayConfig
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.replay.hindsight import MakeGoals
    from rlrun.engine.replay.transition_reader import UnreadMinibatches

EXPERIENCES = {
    "transitions": "rlrun.engine.replay.replay_buffer:ReplayBuffer",
    "sequences": "rlrun.engine.replay.sequences:SequenceReplay",
}
"""Import paths of the replay buffers by the kind of items that they store."""


class Experience(Protocol):
    """Interface of a replay buffer in this process, which stores single transitions or sequences."""

    @property
    def config(self) -> ReplayConfig:
        """Settings of the replay buffer."""

    @property
    def stored_steps(self) -> int:
        """Number of steps stored so far, including those that have been overwritten."""

    @property
    def drawn_batches(self) -> int:
        """Number of minibatches sampled so far."""

    @property
    def num_ready(self) -> int:
        """Number of transitions or sequences that can be sampled."""

    @property
    def learns_priorities(self) -> bool:
        """Whether sampling depends on priorities that were set after earlier minibatches.

        If so, minibatches are sampled one at a time.
        """

    @property
    def num_bytes(self) -> int:
        """Bytes allocated by the replay buffer."""

    def add(self, stream: int, fragment: SampleBatch) -> int:
        """Stores a worker's fragment of T steps in B env slots; returns the number of valid steps in it."""

    def sample(self, batch_size: int, env_steps: int, number: int = 1) -> SampleBatch:
        """Samples minibatches of `batch_size` rows (transitions or sequences), with their `indices` in the buffer."""

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Sets the priorities of sampled rows from their TD errors; an empty array of errors changes nothing."""

    @property
    def is_saved(self) -> bool:
        """Whether `state` holds everything that a resumed run needs to continue exactly, bit for bit."""

    def state(self) -> dict[str, Any]:
        """Returns the random state of sampling, and the stored experience if checkpoints include it."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the buffer from the dict that `state()` returned."""


class LocalReplay:
    """Replay in the calling process: stores fragments and samples minibatches when called.

    Args:
        experience: Replay buffer that stores the fragments.
        workers: Indices of the rollout workers.
        offer: Function to call once the first fragment is stored and the buffer can lend memory; None if it lends none.
        unread: Function that takes the arguments of `Experience.sample`, and returns minibatches for the learner to
            draw and read itself; returns None where that is not possible. None if there is no such function.
    """

    accepts_fragments = True
    has_minibatch = False

    def __init__(
        self,
        experience: Experience,
        workers: Sequence[int],
        offer: Callable[[], object] | None = None,
        unread: Callable[[int, int, int], UnreadMinibatches | None] | None = None,
    ) -> None:
        self.experience = experience
        self._offer, self._unread = offer, unread
        self._streams = {worker: stream for stream, worker in enumerate(workers)}
        self._exhausted: tuple[int, ReplayRatio | None] = -1, None  # state in which nothing is left to sample

    @property
    def stored_steps(self) -> int:
        """Number of steps stored so far, including those that have been overwritten."""
        return self.experience.stored_steps

    def add(self, worker: int | None, fragment: SampleBatch | BatchRef) -> None:
        """Stores a worker's fragment of T steps in B env slots."""
        assert type(fragment) is SampleBatch  # references are delivered only to shards
        self.experience.add(0 if worker is None else self._streams[worker], fragment)
        if self._offer is not None:
            self._offer()
            self._offer = None

    @property
    def learns_priorities(self) -> bool:
        """Whether sampling depends on the priorities that `update_priorities` sets."""
        return self.experience.learns_priorities

    def sample(
        self, minibatch_size: int, env_steps: int, ratio: ReplayRatio, at_most: int = 1, *, unread: bool = False
    ) -> SampleBatch | UnreadMinibatches | None:
        """Samples as many minibatches as the replay ratio now allows, but only one at a time if priorities are learned.

        Returns None if the ratio (minibatches per stored step) allows none yet.
        """
        experience = self.experience
        stored = experience.stored_steps
        if stored == self._exhausted[0] and ratio is self._exhausted[1]:
            return None
        due = ratio.minibatches(stored) - experience.drawn_batches
        if due < 1:
            return None
        most = 1 if experience.learns_priorities else at_most
        drawn = due if due < most else most
        sampled: SampleBatch | UnreadMinibatches | None = None
        if unread and self._unread is not None:
            sampled = self._unread(minibatch_size, env_steps, drawn)
        if sampled is None and experience.num_ready:
            sampled = experience.sample(minibatch_size, env_steps, drawn)
        if sampled is not None and drawn == due:
            self._exhausted = stored, ratio
        return sampled

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Sets the priorities of sampled rows from their TD errors; an empty array of errors changes nothing."""
        self.experience.update_priorities(indices, priorities)

    def attend(self) -> None:
        """Does nothing: a replay in this process receives no messages from other processes."""
        return

    def awaited(self) -> Awaited:
        """Returns no Ray references, since sampling in this process never waits for other processes."""
        return NOTHING_AWAITED

    def settings(self) -> dict[str, Any]:
        """Settings of the replay that the printed dataflow plan shows, by name."""
        return {"capacity": self.experience.config.capacity}

    def metrics(self) -> dict[str, float]:
        """Returns the memory or disk space that the replay has allocated, in bytes, as a metric."""
        return {GIGABYTES.name: self.experience.num_bytes / 1e9}

    @property
    def is_saved(self) -> bool:
        """Whether checkpoints include the stored experience."""
        return self.experience.is_saved

    def state(self) -> dict[str, Any]:
        """Returns the random state of sampling, and the stored experience if checkpoints include it."""
        return self.experience.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the replay from the dict that `state()` returned."""
        self._exhausted = -1, None
        self.experience.load_state(state)

    def close(self) -> None:
        """Does nothing, since the replay started no processes."""
        return


def local_replay(
    workers: Sequence[int],
    run_seed: int,
    config: ReplayConfig,
    *,
    n_step: int,
    gamma: float,
    sequences: bool = False,
    make_goals: MakeGoals | None = None,
    in_kernels: bool = False,
    offer: Callable[[Lend], object] | None = None,
) -> LocalReplay:
    """Creates an empty replay in this process that stores n-step transitions, or sequences for recurrent networks.

    Args:
        workers: Indices of the rollout workers.
        run_seed: Root seed of the trial.
        config: Settings of the replay.
        n_step: Number of rewards that an n-step return sums before it bootstraps.
        gamma: Discount factor.
        sequences: Whether minibatches consist of sequences; `config` must then be a `SequenceReplayConfig`.
        make_goals: Function that creates the env's goal functions (rewards and terminations), for hindsight replay;
            None if the env has none.
        in_kernels: Whether C kernels sample transitions if they can, with the same result.
        offer: Function called once, after the first fragment; receives a function that lends memory for the fragments
            of the only worker. None for no lending.

    Raises:
        UsageError: Sequences are requested, but the settings are not a `SequenceReplayConfig`.
    """
    number, seed = len(workers), child_seed(run_seed, "replay")
    if not sequences:
        make = load_internal(EXPERIENCES["transitions"])
        buffer = make(
            config,
            num_workers=number,
            n_step=n_step,
            gamma=gamma,
            seed=seed,
            make_goals=make_goals,
            in_kernels=in_kernels,
        )
        lend = None if offer is None else partial(offer, partial(buffer.lend, 0))
        return LocalReplay(buffer, workers, lend, buffer.unread)
    if not isinstance(config, SequenceReplayConfig):
        raise UsageError(
            "a sequence replay buffer needs settings of class rlrun.plugin:SequenceReplayConfig, not "
            f"{type(config).__name__}"
        )
    make = load_internal(EXPERIENCES["sequences"])
    return LocalReplay(make(config, num_workers=number, n_step=n_step, gamma=gamma, seed=seed), workers)
