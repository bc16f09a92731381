"""Uniform replay buffer of independent samples, such as positions of finished games."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.restored_rows import RestoredRows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.functional.saved_numbers import as_count, load_generator
from rlrun.engine.replay.memory import zeros_in
from rlrun.engine.replay.replay_config import ReplayConfig
from rlrun.engine.settings.config import fixed

_OF_WORKERS = ("valid", "weights_version")
"""Names of columns that are not stored in the buffer."""


@fixed("rows are sampled uniformly", sampling="uniform", priority_alpha=0.6, priority_beta=0.4, priority_epsilon=1e-6)
@fixed("observations are stored unchanged", frame_stack=None, hindsight=None)
class RowReplayConfig(ReplayConfig):
    """Settings of a uniform replay buffer of independent rows."""


class RowReplay:
    """Circular replay buffer with uniform sampling; it has the interface of `ReplayBuffer`.

    Each row is a complete training sample: there are no next observations, n-step returns or episodes.

    Args:
        config: Settings of the buffer.
        seed: Seed for sampling.

    Attributes:
        config: Settings of the buffer.
        stored_steps: Total number of rows added.
        drawn_batches: Total number of minibatches sampled.
    """

    def __init__(self, config: RowReplayConfig, seed: int) -> None:
        self.config = config
        self.stored_steps = 0
        self.drawn_batches = 0
        self._columns = SampleBatch()
        self._restored = RestoredRows()
        self._generator = np.random.Generator(np.random.Philox(seed))

    learns_priorities = False

    @property
    def num_ready(self) -> int:
        """Number of rows in the buffer that can be sampled."""
        return min(self.stored_steps, self.config.capacity)

    @property
    def num_bytes(self) -> int:
        """Size of the allocated arrays in bytes."""
        return sum(leaf.nbytes for column in self._columns.values() for leaf in leaves(column))

    def add(self, worker: int, fragment: SampleBatch) -> int:
        """Adds N training samples [N, 1] from a worker, overwriting the oldest ones of a full buffer; returns N."""
        number, capacity = len(fragment["valid"]), self.config.capacity
        rows = SampleBatch({name: column for name, column in fragment.items() if name not in _OF_WORKERS})
        self._restored.compare(SampleBatch(rows, valid=fragment["valid"]))
        if not self._columns:
            new = zeros_in(self.config.on_disk)
            self._columns = rows.map(lambda leaf: new((capacity, *leaf.shape[2:]), leaf.dtype))
        newest = np.arange(max(number - capacity, 0), number)
        places = (self.stored_steps + newest) % capacity

        def write(kept: NDArray[Any], leaf: NDArray[Any]) -> None:
            kept[places] = leaf[newest, 0]

        for name, column in rows.items():
            map_tree(write, self._columns[name], column)
        self.stored_steps += number
        return number

    def sample(self, batch_size: int, env_steps: int, number: int = 1) -> SampleBatch:
        """Samples minibatches [S, 1] uniformly with replacement, with the column `indices` [S].

        Args:
            batch_size: Number of rows per minibatch.
            env_steps: Env steps so far; unused, since sampling has no schedule.
            number: Number of minibatches, whose rows are concatenated: S in total.
        """
        self.drawn_batches += number
        indices = self._generator.integers(self.num_ready, size=batch_size * number)
        batch = self._columns.map(lambda leaf: leaf[indices][:, None])
        return SampleBatch(batch, valid=np.ones((len(indices), 1), np.bool_), indices=indices)

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Ignores priorities, since sampling is uniform."""

    @property
    def is_saved(self) -> bool:
        """Whether checkpoints include the rows."""
        return self.config.saves(self.num_bytes)

    def state(self) -> dict[str, Any]:
        """State for a checkpoint: the random generator, and copies of the rows if checkpoints include them."""
        state: dict[str, Any] = {"generator": dict(self._generator.bit_generator.state), "kept": None}
        if self.is_saved:
            state["kept"] = {
                "stored_steps": self.stored_steps,
                "drawn_batches": self.drawn_batches,
                "columns": dict(self._columns.map(lambda leaf: leaf[: self.num_ready].copy())),
            }
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores `state()` of a buffer with the same settings into an empty buffer.

        Without saved rows the buffer stays empty, and is refilled before learning continues.
        """
        load_generator(self._generator, state["generator"])
        kept = state["kept"]
        if kept is None:
            return
        self.stored_steps = 0
        if kept["columns"]:
            rows = SampleBatch(kept["columns"]).map(lambda leaf: leaf[:, None])
            number = min(as_count(kept["stored_steps"]), self.config.capacity)
            rows = SampleBatch(rows, valid=np.ones((number, 1), np.bool_))
            self.add(0, rows)
            self._restored.load([rows])
        self.stored_steps, self.drawn_batches = as_count(kept["stored_steps"]), as_count(kept["drawn_batches"])
