"""Replay buffer that mixes collected experience with demonstrations, for R2D3 (NumPy)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch, concatenated_rows
from rlrun.engine.datasets.input_sets import demonstrations_at
from rlrun.engine.functional.reward_scale import UNSCALED, RewardScale
from rlrun.engine.functional.saved_numbers import load_generator
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.replay.replay_config import SequenceReplayConfig
from rlrun.engine.replay.sequences import SequenceReplay
from rlrun.engine.replay.stores import Indices


class DemonstratedReplay:
    """Replay buffer of sequences: samples demonstrations with a fixed probability, otherwise collected experience.

    Demonstrations are stored in a separate buffer and never overwritten. Their sequences start from a zero recurrent
    state, which the burn-in updates. The demonstration file is read at the first rollout fragment. It is not part of
    checkpoints, so it must still exist when a run is resumed.

    Source:
        Paine et al., arXiv:1909.01387, section 3.

    Attributes:
        config: Settings of both buffers; the buffer for demonstrations gets just the capacity it needs.
        ratio: Probability that a sampled sequence is a demonstration.

    Args:
        replay_of: Function that creates an empty buffer from the buffer's settings and `num_workers`.
        config: Settings of both buffers.
        num_workers: Number of workers whose fragments are stored.
        demonstrations: Path of a file or a data set of demonstrations; if None, the first fragment raises an error.
        ratio: Probability that a sampled sequence is a demonstration.
        seed: Seed for the choice between demonstrations and collected experience.
        scale: Scale and clipping bound of the demonstrations' rewards, the same as for collected rewards.
    """

    def __init__(
        self,
        replay_of: Callable[..., SequenceReplay],
        config: SequenceReplayConfig,
        num_workers: int,
        *,
        demonstrations: str | None,
        ratio: float,
        seed: int,
        scale: RewardScale = UNSCALED,
    ) -> None:
        self.config = config
        self.ratio = ratio
        self._replay_of = replay_of
        self._path = demonstrations
        self._scale = scale
        self._collected = replay_of(config, num_workers=num_workers)
        self._demonstrated: SequenceReplay | None = None
        self._state: dict[str, Any] | None = None
        self._generator = np.random.Generator(np.random.Philox(seed))

    @property
    def stored_steps(self) -> int:
        """Total number of collected steps added, without demonstrations."""
        return self._collected.stored_steps

    @property
    def drawn_batches(self) -> int:
        """Total number of minibatches sampled."""
        return self._collected.drawn_batches

    @property
    def learns_priorities(self) -> bool:
        """Whether training on a minibatch changes sampling priorities, so that minibatches are sampled one by one."""
        return self._collected.learns_priorities

    @property
    def num_bytes(self) -> int:
        """Size of the allocated arrays in bytes."""
        return sum(replay.num_bytes for replay in (self._collected, self._demonstrated) if replay is not None)

    @property
    def num_ready(self) -> int:
        """Number of collected sequences that can be sampled."""
        return self._collected.num_ready

    def add(self, worker: int, fragment: SampleBatch) -> int:
        """Adds a rollout fragment [T, B]; returns the number of steps added.

        Args:
            worker: Index of the worker that collected the fragment, from 0.
            fragment: Columns of the fragment, as for a `SequenceReplay`.

        Raises:
            UsageError: If there are no demonstrations, or their columns do not match the env's.
        """
        if self._demonstrated is None:
            self._demonstrated = self._read(fragment)
        return self._collected.add(worker, fragment)

    def _read(self, like: SampleBatch) -> SequenceReplay:
        """Loads the demonstrations into a replay, with the columns of a collected fragment."""
        if self._path is None:
            raise UsageError(
                "r2d3 needs demonstrations: set config.demonstrations to a file or folder written by `rlrun "
                "demonstrate`"
            )
        found = demonstrations_at(self._path)
        config = self.config
        fragment = found.fragment(like)
        fragment["rewards"] = self._scale(fragment["rewards"])
        fragment["state"] = np.zeros((len(fragment["valid"]), 1, like["state"].shape[2]), np.float32)
        span = config.burn_in + config.length + config.stride
        replay = self._replay_of(config.replace(capacity=2 * len(fragment["valid"]) + 3 * span), num_workers=1)
        replay.add(0, fragment)
        replay.finish(0)
        if self._state is not None:
            replay.load_draws(self._state)
        return replay

    def sample(self, batch_size: int, env_steps: int, number: int = 1) -> SampleBatch:
        """Samples minibatches of sequences, like `SequenceReplay`, with demonstrations last in each minibatch.

        Args:
            batch_size: Number of sequences per minibatch.
            env_steps: Env steps so far, for schedules.
            number: Number of minibatches, whose rows are concatenated: S sequences in total.

        Returns:
            Sequences, with negative `indices` for demonstrations.
        """
        return concatenated_rows([self._minibatch(batch_size, env_steps) for _ in range(number)])

    def _minibatch(self, batch_size: int, env_steps: int) -> SampleBatch:
        assert self._demonstrated is not None  # created when the first fragment arrives
        number = int(np.count_nonzero(self._generator.random(batch_size) < self.ratio))
        if number == 0:
            return self._collected.sample(batch_size, env_steps)
        shown = self._demonstrated.sample(number, env_steps)
        shown["indices"] = -1 - shown["indices"]
        if number == batch_size:
            self._collected.drawn_batches += 1
            return shown
        collected = self._collected.sample(batch_size - number, env_steps)
        return concatenated_rows([collected, shown])

    def update_priorities(self, indices: Indices, priorities: NDArray[np.float32]) -> None:
        """Updates the priorities of sampled sequences [rows], collected and demonstrated."""
        own = indices >= 0
        self._collected.update_priorities(indices[own], priorities[own])
        if self._demonstrated is not None:
            self._demonstrated.update_priorities(-1 - indices[~own], priorities[~own])

    @property
    def is_saved(self) -> bool:
        """Whether checkpoints include collected experience; demonstrations are reloaded from their file."""
        return self._collected.is_saved

    def state(self) -> dict[str, Any]:
        """State for a checkpoint: collected experience and random generators, without demonstrations."""
        return {
            "collected": self._collected.state(),
            "demonstrated": self._state if self._demonstrated is None else self._demonstrated.draws(),
            "generator": dict(self._generator.bit_generator.state),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the buffer from `state()`; demonstrations are loaded at the next fragment."""
        self._collected.load_state(state["collected"])
        self._state, self._demonstrated = state["demonstrated"], None
        load_generator(self._generator, state["generator"])
