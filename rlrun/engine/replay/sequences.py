"""Replay buffer of sequences for recurrent networks, with stored recurrent states and burn-in, as in R2D2 (NumPy)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.packing import clear
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.saved_numbers import as_count, load_generator
from rlrun.engine.messages.errors import CheckpointError, UsageError
from rlrun.engine.replay.n_step import n_step_transitions
from rlrun.engine.replay.replay_config import SequenceReplayConfig
from rlrun.engine.replay.ring import ReplayRing
from rlrun.engine.replay.row_sampler import RowSampler
from rlrun.engine.replay.samplers import make_sampler, sampler_of
from rlrun.engine.replay.stores import Indices
from rlrun.engine.replay.streams import Inserted


class SequenceReplay:
    """Replay buffer of sequences for recurrent networks, with stored recurrent states and burn-in (R2D2).

    It has the same interface as `ReplayBuffer`.

    A sequence is `burn_in` + `length` consecutive rows of one env slot in the ring. `n_step` more rows follow, with the
    bootstrap observations of the last n-step transitions. Sequences can span episodes: recurrent state is reset at
    `episode_starts`, and an episode's final observation is stored in an invalid row. A sequence begins every
    `stride` rows. A sequence can be sampled once all its rows are stored, until its first row is overwritten.

    Attributes:
        config: Settings of the sequence replay.
        stored_steps: Number of steps added since creation, including overwritten ones.
        drawn_batches: Number of minibatches sampled since creation.
        learns_priorities: Whether sampling depends on priorities that earlier minibatches set.
        num_ready: Number of sequences that can be sampled.

    Args:
        config: Settings of the sequence replay.
        num_workers: Number of rollout workers.
        n_step: Maximum length n of an n-step transition.
        gamma: Discount factor.
        seed: Seed of the sampler.

    Raises:
        UsageError: Hindsight replay is enabled, but it supports only single transitions.

    Source:
        Kapturowski et al., "Recurrent Experience Replay in Distributed Reinforcement Learning" (R2D2), ICLR 2019.
    """

    def __init__(self, config: SequenceReplayConfig, *, num_workers: int, n_step: int, gamma: float, seed: int) -> None:
        if config.hindsight is not None:
            raise UsageError("replay.hindsight does not support sequences of a recurrent network; leave it out")
        self.config = config
        self.n_step = n_step
        self.gamma = gamma
        self.stored_steps = 0
        self.drawn_batches = 0
        self.num_ready = 0
        self._span = config.burn_in + config.length + n_step
        self._ring = ReplayRing(
            config.capacity,
            num_workers,
            1,
            gamma,
            extra=("episode_starts", *config.extra_columns),
            frame_stack=config.frame_stack,
            on_disk=config.on_disk,
        )
        self._ready = np.zeros((num_workers, 0, 0), np.bool_)
        self._recurrent: NDArray[np.float32] = np.zeros((num_workers, 0, 0, 0), np.float32)
        self.learns_priorities = sampler_of(config)[0].learns_priorities
        self._sampler: RowSampler | None = None
        self._generator = np.random.Generator(np.random.Philox(seed))

    @property
    def num_indices(self) -> int:
        """Upper bound (exclusive) of the sequences' indices; 0 before the first fragment."""
        return self._ready.size

    @property
    def num_bytes(self) -> int:
        """Bytes allocated for the stored experience, recurrent states and the sampler."""
        own = 0 if self._sampler is None else self._sampler.num_bytes
        return self._ring.num_bytes + self._ready.nbytes + self._recurrent.nbytes + own

    def add(self, worker: int, fragment: SampleBatch) -> int:
        """Stores a fragment of T steps in B env slots, and returns its number of valid steps.

        Args:
            worker: Index, from 0, of the worker that collected the fragment.
            fragment: Columns of experience, with raw (unfiltered) observations, `state` [T, B, state_size], and
                `episode_starts` [T, B], or [T, B, K] for teams of K members.

        Raises:
            UsageError: The capacity is too small for a sequence.
            CheckpointError: The restored recurrent states have a different size.
        """
        for inserted in self._ring.insert(worker, fragment):
            if not self._ready.size:
                self._allocate(fragment["state"].shape[2])
            if (width := self._recurrent.shape[3]) != (own := fragment["state"].shape[2]):
                raise CheckpointError(f"the checkpoint's replay buffer has recurrent states of size {width}, not {own}")
            self._note(inserted, fragment["state"][inserted.steps, inserted.slots])
        self.num_ready = int(np.count_nonzero(self._ready))
        steps = int(np.count_nonzero(fragment["valid"]))
        self.stored_steps += steps
        return steps

    def finish(self, worker: int) -> None:
        """Appends invalid rows after a worker's last experience, so that sequences can begin at the last steps, too."""
        for inserted in self._ring.pad(worker, self._span - self.n_step + self.config.stride - 1):
            num_slots = inserted.slots.stop - inserted.slots.start
            self._note(inserted, np.zeros((len(inserted.rows) - 1, num_slots, self._recurrent.shape[3]), np.float32))
        self.num_ready = int(np.count_nonzero(self._ready))

    def _note(self, inserted: Inserted, state: NDArray[np.float32]) -> None:
        """Stores recurrent states at possible sequence starts in new rows, and updates the sampleable sequences."""
        worker, stride, rows = inserted.worker, self.config.stride, self._ring.rows
        firsts = np.flatnonzero(inserted.rows[:-1] % stride == 0)
        self._recurrent[worker, inserted.rows[firsts] // stride, inserted.slots] = state[firsts]
        self._mark(inserted, inserted.lost, ready=False)
        # The last row of these sequences is among the new rows, unless it has already been overwritten. In the first
        # of the lost rows, only a closing observation was written, so a sequence may end there.
        firsts = (inserted.rows[-1] - (self._span - 1) - np.arange(len(inserted.rows))) % rows
        firsts = np.setdiff1d(firsts[firsts % stride == 0], np.setdiff1d(inserted.lost[1:], inserted.rows))
        ahead = self._ring.streams.rows_ahead((worker * rows + firsts) * self._ring.num_slots + inserted.slots.start)
        new = (ahead >= self._span - 1) & ~self._ready[worker, firsts // stride, inserted.slots.start]
        firsts, ahead = firsts[new], ahead[new]
        self._mark(inserted, firsts[np.argsort(-ahead)], ready=True)

    def _mark(self, inserted: Inserted, rows: Indices, *, ready: bool) -> None:
        """Updates whether the sequences that start at given rows of an insertion can be sampled."""
        places = rows[rows % self.config.stride == 0] // self.config.stride
        if not len(places):
            return
        self._ready[inserted.worker, places, inserted.slots] = ready
        if self._sampler is not None:
            firsts = (inserted.worker * self._ready.shape[1] + places) * self._ring.num_slots
            sequences = (firsts[:, None] + np.arange(self._ring.num_slots)[inserted.slots]).ravel()
            if ready:
                self._sampler.add(sequences, None)
            else:
                self._sampler.remove(sequences)

    def _allocate(self, width: int) -> None:
        """Allocates storage for recurrent states, one per possible sequence start."""
        ring = self._ring
        if ring.rows < self._span + self.config.stride:
            least = (self._span + self.config.stride) * ring.num_workers * ring.num_slots
            raise UsageError(
                f"a replay buffer of {ring.capacity:,} steps has {ring.rows} rows per env, but a sequence "
                f"needs {self._span + self.config.stride} rows for its burn-in, its length, its n-step return and "
                f"one stride; set replay.capacity to at least {least:,}"
            )
        shape = (ring.num_workers, -(-ring.rows // self.config.stride), ring.num_slots)
        self._ready, self._recurrent = np.zeros(shape, np.bool_), np.zeros((*shape, width), np.float32)
        self._sampler = make_sampler(self.config, self)

    def draw(self, generator: np.random.Generator, number: int, times: int = 1) -> Indices:
        """Samples indices of sequences uniformly with replacement; returns `times` * `number` indices in one array."""
        ready = np.flatnonzero(self._ready)
        drawn: Indices = ready[generator.integers(len(ready), size=number * times)]
        return drawn

    def sample(self, batch_size: int, env_steps: int, number: int = 1) -> SampleBatch:
        """Samples minibatches of sequences of consecutive steps.

        Args:
            batch_size: Number of sequences of a minibatch.
            env_steps: Total env steps so far, for hyperparameter schedules.
            number: Number of minibatches, whose rows are concatenated: S sequences in total.

        Returns:
            Columns [S, length] of the steps after burn-in, namely `actions`, `rewards` and `discounts` (over n steps),
            `steps` (their number n) and `valid`; columns of the whole sequences, namely `obs` and `episode_starts` [S,
            burn_in + length + n_step, ...], and `state` [S, state_size] before their first rows; the importance
            `weights` [S, 1], and the replay `indices` [S] for `update_priorities`.
        """
        self.drawn_batches += number
        assert self._sampler is not None  # created with the first fragment
        sequences, weights = self._sampler.draw(self._generator, batch_size, number, env_steps)
        return SampleBatch(self.gather(sequences), weights=weights[:, None], indices=sequences)

    def gather(self, sequences: Indices) -> SampleBatch:
        """Reads the sequences at the given indices, with the same columns as `sample` returns."""
        burn_in, length = self.config.burn_in, self.config.length
        places, slots = np.divmod(sequences, self._ring.num_slots)
        workers, places = np.divmod(places, self._ready.shape[1])
        firsts = (workers * self._ring.rows + places * self.config.stride) * self._ring.num_slots + slots
        indices = self._ring.streams.later(firsts[:, None], np.arange(self._span))
        whole = self._ring.read(indices, ("obs", "episode_starts", "valid"))
        # An observation that neither belongs to a step nor follows one may be garbage (`rlrun.engine.data.packing`).
        seen = whole["valid"].copy()
        seen[:, 1:] |= whole["valid"][:, :-1]
        clear(whole["obs"], ~seen)
        clear(whole["episode_starts"], ~whole["valid"])  # left over from overwritten steps
        state = self._recurrent.reshape(-1, self._recurrent.shape[3])[sequences]
        clear(state, ~whole["valid"][:, 0])
        learned = indices[:, burn_in : burn_in + length + self.n_step - 1]
        steps = self._ring.read(learned, ("rewards", "terminateds", "truncateds", "valid"))
        valid = steps["valid"][:, :length]
        own = self._ring.read(learned[:, :length], ("actions", *self.config.extra_columns))
        clear(own, ~valid)
        found = n_step_transitions(
            **{name: column.T for name, column in steps.items()}, gamma=self.gamma, n_step=self.n_step
        )
        return SampleBatch(
            obs=whole["obs"],
            episode_starts=whole["episode_starts"],
            state=state,
            **own,
            rewards=found.rewards[:length].T,
            discounts=found.discounts[:length].T,
            steps=found.steps[:length].T.astype(np.int64),
            valid=valid,
        )

    def update_priorities(self, indices: Indices, priorities: NDArray[np.float32]) -> None:
        """Sets the priorities of sampled sequences; does nothing if sampling is not prioritized.

        Args:
            indices: Replay `indices` [S] of a minibatch; indices overwritten since sampling are skipped.
            priorities: New priorities of the sequences, [S].
        """
        if self._sampler is not None and self.learns_priorities:
            ready = self._ready.reshape(-1)[indices]
            self._sampler.update(indices[ready], priorities[ready])

    @property
    def is_saved(self) -> bool:
        """Whether checkpoints include the stored experience."""
        return self.config.saves(self.num_bytes)

    def state(self) -> dict[str, Any]:
        """Returns the random state of sampling, and a copy of the stored experience if checkpoints include it."""
        draws = self.draws()
        if not self.is_saved:
            return {"kept": None, "generator": draws["generator"]}
        kept = {
            "stored_steps": self.stored_steps,
            "ring": self._ring.state(),
            "ready": self._ready.copy(),
            "recurrent_state": self._recurrent.copy(),
        }
        return {"kept": {**kept, **draws}, "generator": draws["generator"]}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the `state()` of a buffer with equal settings into this empty buffer.

        Without saved experience the replay stays empty, and collects `learning_starts` steps before learning resumes.
        """
        load_generator(self._generator, state["generator"])
        kept = state["kept"]
        if kept is None:
            return
        self.stored_steps = as_count(kept["stored_steps"])
        self._ring.load_state(kept["ring"])
        ready, recurrent = np.array(kept["ready"], np.bool_), np.array(kept["recurrent_state"], np.float32)
        ring, places = self._ring, -(-self._ring.rows // self.config.stride)
        if ready.size and ready.shape != (ring.num_workers, places, ring.num_slots):
            raise ValueError(
                f"sequences of shape {ready.shape} for a replay buffer of shape "
                f"{ring.num_workers, places, ring.num_slots}"
            )
        if ready.size and (recurrent.ndim != 4 or recurrent.shape[:3] != ready.shape):
            raise ValueError(f"recurrent states of shape {recurrent.shape} for sequences of shape {ready.shape}")
        self._ready, self._recurrent = ready, recurrent
        self.num_ready = int(np.count_nonzero(self._ready))
        self.load_draws(kept)

    def draws(self) -> dict[str, Any]:
        """Returns the random state of sampling and the sampler's state, without the experience, for a checkpoint."""
        return {
            "drawn_batches": self.drawn_batches,
            "sampler": None if self._sampler is None else self._sampler.state(),
            "generator": dict(self._generator.bit_generator.state),
        }

    def load_draws(self, state: dict[str, Any]) -> None:
        """Restores the random state and the sampler from `draws()`; the buffer must hold the same experience."""
        self.drawn_batches = as_count(state["drawn_batches"])
        if state["sampler"] is not None:
            self._sampler = make_sampler(self.config, self)
            self._sampler.load_state(state["sampler"])
        load_generator(self._generator, state["generator"])
