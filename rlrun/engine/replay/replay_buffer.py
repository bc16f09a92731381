"""Replay buffer that stores and samples single n-step transitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.saved_numbers import as_count, load_generator
from rlrun.engine.functional.seeding import child_seed
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.replay.ring import ReplayRing
from rlrun.engine.replay.row_lender import RowLender
from rlrun.engine.replay.row_sampler import RowSampler
from rlrun.engine.replay.samplers import make_sampler, sampler_of
from rlrun.engine.replay.stores import Indices
from rlrun.engine.replay.streams import Inserted
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.replay.hindsight import Hindsight, MakeGoals
    from rlrun.engine.replay.transition_reader import TransitionReader, UnreadMinibatches

KERNELS = {
    "reader": "rlrun.engine.replay.transition_reader:TransitionReader",
    "minibatches": "rlrun.engine.replay.transition_reader:UnreadMinibatches",
}
"""Import paths of the classes that sample with C kernels."""

PRIORITIES = "priorities"
"""Name of a fragment's column of initial replay priorities, [T, B]; see `InitialPriorities`."""


class ReplayBuffer:
    """Replay buffer of n-step transitions, which stores fragments and samples minibatches.

    Attributes:
        config: Settings of the replay buffer.
        stored_steps: Number of steps added since creation, including overwritten ones.
        drawn_batches: Number of minibatches sampled since creation.
        learns_priorities: Whether sampling depends on priorities that earlier minibatches set.

    Args:
        config: Settings of the replay buffer.
        num_workers: Number of rollout workers.
        n_step: Maximum length n of an n-step transition.
        gamma: Discount factor.
        seed: Seed of the sampler.
        make_goals: Function that creates the env's goal functions (rewards and terminations), for hindsight replay;
            None if the env has none.
        in_kernels: Whether C kernels sample transitions if they can, with the same result.

    Raises:
        UsageError: The settings require hindsight replay, but the env has no goal functions.
    """

    def __init__(
        self,
        config: ReplayConfig,
        *,
        num_workers: int,
        n_step: int,
        gamma: float,
        seed: int,
        make_goals: MakeGoals | None = None,
        in_kernels: bool = False,
    ) -> None:
        if config.hindsight is not None and make_goals is None:
            raise UsageError(
                "replay.hindsight works only for a single-agent env whose own steps are replayed; leave it out"
            )
        self.config = config
        self.stored_steps = 0
        self.drawn_batches = 0
        self._ring = ReplayRing(
            config.capacity, num_workers, n_step, gamma, frame_stack=config.frame_stack, on_disk=config.on_disk
        )
        self._lender = RowLender(self._ring)
        self.learns_priorities = sampler_of(config)[0].learns_priorities
        self._sampler: RowSampler | None = None
        # Initial priorities of fragments, by index, until their steps can be sampled.
        self._initial_priorities: NDArray[np.float32] | None = None
        self._generator = np.random.Generator(np.random.Philox(seed))
        self._in_kernels = in_kernels
        self._reader: TransitionReader | None = None
        self._make_unread: Callable[..., UnreadMinibatches]
        self._make_goals = make_goals
        self._hindsight_seed = child_seed(seed, "hindsight")
        self._hindsight: Hindsight | None = None

    @property
    def num_ready(self) -> int:
        """Number of transitions that can be sampled."""
        return self._ring.ready.number

    @property
    def num_indices(self) -> int:
        """Upper bound (exclusive) of the transitions' indices; 0 before the first fragment."""
        return self._ring.streams.num_indices

    @property
    def num_bytes(self) -> int:
        """Bytes allocated for the stored experience and the sampler."""
        initial = 0 if self._initial_priorities is None else self._initial_priorities.nbytes
        places = 0 if self._hindsight is None else self._hindsight.num_bytes
        return self._ring.num_bytes + initial + places + (0 if self._sampler is None else self._sampler.num_bytes)

    def add(self, worker: int, fragment: SampleBatch) -> int:
        """Stores a fragment of T steps in B env slots, and returns its number of valid steps.

        Args:
            worker: Index, from 0, of the worker that collected the fragment.
            fragment: Columns of experience, with raw (unfiltered) observations. Initial priorities are the column
                `priorities` [T, B] if present, else the largest priority so far.
        """
        hindsight = None
        if self.config.hindsight is not None:
            hindsight = self._relabeling()
            hindsight.check(fragment)
        for inserted in self._ring.insert(worker, fragment):
            if hindsight is not None:
                hindsight.insert(inserted)
            if self._sampler is None or self.config.sampling != "uniform":
                self._note(inserted, fragment.get(PRIORITIES) if self.learns_priorities else None)
        steps = int(np.add.reduce(fragment["valid"], None))
        self.stored_steps += steps
        return steps

    def lend(self, worker: int, length: int, after: Any, actions: Any) -> SampleBatch | None:
        """Lends the memory of a worker's next fragment of T steps; see `RowLender`."""
        lent = self._lender.lend(worker, length, after, actions)
        if lent is None or self._sampler is None:
            return None
        columns, overwritten = lent
        if overwritten.size:
            self._sampler.remove(overwritten)
        return columns

    def _relabeling(self) -> Hindsight:
        """Returns the relabeling, created with the env's goal functions at first use."""
        if self._hindsight is None:
            assert self.config.hindsight is not None
            assert self._make_goals is not None
            from rlrun.engine.replay.hindsight import Hindsight

            self._hindsight = Hindsight(self.config.hindsight, self._ring, self._make_goals, self._hindsight_seed)
        return self._hindsight

    def _note(self, inserted: Inserted, priorities: NDArray[Any] | None) -> None:
        """Informs the sampler of new and overwritten transitions."""
        sampler = self._sampler or self._make_sampler()
        if priorities is not None and self._initial_priorities is None:
            self._initial_priorities = np.full(self.num_indices, np.nan, np.float32)
        if inserted.overwritten.size:
            sampler.remove(inserted.overwritten)
        if self._initial_priorities is None:
            sampler.add(inserted.ready, None)
        else:
            slots = np.arange(self._ring.num_slots)[inserted.slots]
            indices = self._ring.streams.numbered(inserted.worker, inserted.rows[:-1, None], slots)
            self._initial_priorities[indices] = (
                np.nan if priorities is None else priorities[inserted.steps, inserted.slots]
            )
            sampler.add(inserted.ready, self._initial_priorities[inserted.ready])

    def _make_sampler(self) -> RowSampler:
        """Creates the sampler, once the buffer has stored rows."""
        self._sampler = make_sampler(self.config, self)
        if self._in_kernels:
            ring, make = self._ring, load_internal(KERNELS["reader"])
            if make.supports(ring.stores, ring.streams):
                self._make_unread = load_internal(KERNELS["minibatches"])
                self._reader = make(ring.stores, ring.ready.flags, ring.streams, ring.gamma, self._generator)
        return self._sampler

    def draw(self, generator: np.random.Generator, number: int, times: int = 1) -> Indices:
        """Samples indices of transitions uniformly with replacement; returns `times` * `number` indices in one array.

        Raises:
            RuntimeError: No transition can be sampled yet.
        """
        return self._ring.draw(generator, number, times)

    def unread(self, batch_size: int, env_steps: int, number: int) -> UnreadMinibatches | None:
        """Returns the minibatches that `sample` would return, for the learner to draw and read.

        Returns None, and counts no minibatch, if C kernels do not read the transitions, if transitions are relabeled,
        or if no transition can be sampled yet.
        """
        if self._reader is None or self._hindsight is not None or not self._ring.ready.number:
            return None
        self.drawn_batches += number
        chosen, weights = None, None
        if self._sampler is not None and self.config.sampling != "uniform":
            chosen, weights = self._chosen(self._sampler, batch_size, number, env_steps)
        return self._make_unread(self._reader, batch_size, number, chosen, weights)

    def _chosen(
        self, sampler: RowSampler, batch_size: int, number: int, env_steps: int
    ) -> tuple[Indices, NDArray[np.float32]]:
        """Returns the rows that a sampler chooses, and their weights; both can be read by C kernels."""
        chosen = sampler.draw(self._generator, batch_size, number, env_steps)
        if self.config.sampling in ("uniform", "prioritized"):
            return chosen
        return checked(type(sampler).__name__, *chosen, (batch_size * number,), self.num_indices)

    def sample(self, batch_size: int, env_steps: int, number: int = 1) -> SampleBatch:
        """Samples several minibatches of n-step transitions in one call, with the same result as separate calls.

        Args:
            batch_size: Number of transitions of a minibatch.
            env_steps: Total env steps so far, for hyperparameter schedules.
            number: Number of minibatches, whose rows are concatenated: S in total.

        Returns:
            Rows [S, 1] with `obs`, `actions`, `rewards` and `discounts` (over n steps), `next_obs`,
            `valid`, importance `weights`, and the replay `indices` [S] for `update_priorities`.

        Raises:
            RuntimeError: No transition can be sampled yet.
        """
        self.drawn_batches += number
        if self._sampler is None:
            raise RuntimeError("the replay buffer contains no complete step to sample")
        reader, weights = self._reader, None
        if reader is not None and self.config.sampling == "uniform" and self.num_ready:
            indices = reader.draw(batch_size, number)
        else:
            indices, weights = self._chosen(self._sampler, batch_size, number, env_steps)
        batch = self._ring.gather(indices) if reader is None else reader.read(indices)
        if self._hindsight is not None:
            self._hindsight.relabel(indices, batch)
        if weights is not None:
            batch["weights"] = weights[:, None]
        batch["indices"] = indices
        return batch

    def minibatches(self, number: int, batch_size: int, env_steps: int) -> SampleBatch:
        """Samples minibatches like `sample`, but returns them stacked along an additional first axis.

        Args:
            number: Number of minibatches, N.
            batch_size: Transitions per minibatch, S.
            env_steps: Total env steps so far, for hyperparameter schedules.

        Returns:
            The columns of `sample`, [N, S, ...].

        Raises:
            RuntimeError: No transition can be sampled yet.
        """
        rows = self.sample(batch_size, env_steps, number)
        return rows.map(lambda leaf: leaf.reshape(number, batch_size, *leaf.shape[1:]))

    def peek(self, number: int, generator: np.random.Generator) -> SampleBatch:
        """Samples transitions uniformly with a given random generator; they do not count as a minibatch.

        Args:
            number: Number of transitions, S.
            generator: Random generator to sample with.

        Returns:
            Columns of the transitions, [S, 1, ...].
        """
        return self._ring.gather(self._ring.draw(generator, number))

    def transitions(self) -> SampleBatch:
        """Returns all N transitions that can be sampled: columns [N, 1, ...], with `terminateds`, and `indices` [N]."""
        indices = self._ring.ready.indices()
        ends = self._ring.read(indices[:, None], ("terminateds",))
        return SampleBatch(self._ring.gather(indices), **ends, indices=indices)

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[Any]) -> None:
        """Sets the priorities of sampled transitions; does nothing if sampling is not prioritized.

        Args:
            indices: Replay `indices` [S] of a minibatch; indices overwritten since sampling are skipped.
            priorities: Absolute TD errors of the transitions, [S]; empty to change no priority.
        """
        if self._sampler is None or not self.learns_priorities or not len(priorities):
            return
        ready = self._ring.ready.has(indices)
        if np.count_nonzero(ready) < len(ready):
            indices, priorities = indices[ready], priorities[ready]
        self._sampler.update(indices, priorities)

    @property
    def is_saved(self) -> bool:
        """Whether checkpoints include the stored experience."""
        return self.config.saves(self.num_bytes)

    def state(self) -> dict[str, Any]:
        """Returns the random state of sampling, and a copy of the stored experience if checkpoints include it."""
        state: dict[str, Any] = {"generator": dict(self._generator.bit_generator.state), "kept": None}
        if self.is_saved:
            state["kept"] = {
                "stored_steps": self.stored_steps,
                "drawn_batches": self.drawn_batches,
                "ring": self._ring.state(),
                "sampler": None if self._sampler is None else self._sampler.state(),
                "told": None if self._initial_priorities is None else self._initial_priorities.copy(),
            }
            if self._hindsight is not None:
                state["kept"]["hindsight"] = self._hindsight.state()
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the `state()` of a buffer with equal settings into this empty buffer.

        Without saved experience the replay stays empty, and collects `learning_starts` steps before learning resumes.
        """
        load_generator(self._generator, state["generator"])
        kept = state["kept"]
        if kept is None:
            return
        self.stored_steps, self.drawn_batches = as_count(kept["stored_steps"]), as_count(kept["drawn_batches"])
        self._ring.load_state(kept["ring"])
        if kept["sampler"] is not None:
            self._make_sampler().load_state(kept["sampler"])
        if self.config.hindsight is not None and "hindsight" in kept:
            self._relabeling().load_state(kept["hindsight"])
        initial = None if kept["told"] is None else np.array(kept["told"], np.float32)
        if initial is not None and initial.shape != (self._ring.streams.num_indices,):
            raise ValueError(f"priorities of shape {initial.shape} for {self._ring.streams.num_indices} rows")
        self._initial_priorities = initial


def checked(
    sampler: str, indices: Any, weights: Any, expected: tuple[int], num_rows: int
) -> tuple[Indices, NDArray[np.float32]]:
    """Validates a custom sampler's result, since C kernels do not check rows; returns it in the required dtypes.

    Args:
        sampler: Name of the sampler, for messages.
        indices: Indices of the chosen rows.
        weights: Weights of the rows in the loss.
        expected: Shape that indices and weights must have.
        num_rows: Number of rows in the replay buffer's memory.

    Raises:
        ValueError: The sampler returned a different number of rows, or rows that do not exist.
    """
    rows, factors = np.ascontiguousarray(indices, np.int64), np.ascontiguousarray(weights, np.float32)
    if rows.shape != expected or factors.shape != expected:
        raise ValueError(
            f"{sampler}.draw must return {expected[0]} indices and as many weights, not arrays of shapes {rows.shape} "
            f"and {factors.shape}"
        )
    if rows.min() < 0 or rows.max() >= num_rows:
        raise ValueError(
            f"{sampler}.draw returned indices from {rows.min()} to {rows.max()}; the rows are 0 to {num_rows - 1}"
        )
    return rows, factors
