"""Replay of independent rows of experience."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.config import fixed
from rlrun.data.restored_rows import RestoredRows
from rlrun.data.sample_batch import SampleBatch
from rlrun.data.tree import leaves, map_tree
from rlrun.functional.saved_numbers import as_count, load_generator
from rlrun.replay.memory import zeros_in
from rlrun.replay.replay_config import ReplayConfig

_OF_WORKERS = ("valid", "weights_version")
"""Columns about the collection of a row, which are not stored."""


@fixed("rows are drawn uniformly", prioritized=False, priority_alpha=0.6, priority_beta=0.4, priority_epsilon=1e-6)
@fixed("an observation is kept as it is", frame_stack=None)
class RowReplayConfig(ReplayConfig):
    """A replay buffer of rows that are drawn uniformly."""


class RowReplay:
    """Uniform replay of the newest rows, with the interface of `ReplayBuffer`.

    Rows hold all that is learned from them: there are no next observations, n-step returns or episodes.

    Args:
        config: Its settings.
        seed: Seed of the draws.

    Attributes:
        config: Its settings.
        stored_steps: Rows stored since it was empty.
        drawn_batches: Minibatches drawn since then.
    """

    def __init__(self, config: RowReplayConfig, seed: int) -> None:
        self.config = config
        self.stored_steps = 0
        self.drawn_batches = 0
        self._columns = SampleBatch()
        self._restored = RestoredRows()
        self._generator = np.random.Generator(np.random.Philox(seed))

    @property
    def num_ready(self) -> int:
        """Rows that can be drawn."""
        return min(self.stored_steps, self.config.capacity)

    @property
    def num_bytes(self) -> int:
        """Allocated bytes."""
        return sum(leaf.nbytes for column in self._columns.values() for leaf in leaves(column))

    def add(self, worker: int, fragment: SampleBatch) -> int:
        """Stores rows [N, 1] of any worker, and returns their number."""
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

    def sample(self, batch_size: int, env_steps: int) -> SampleBatch:
        """Draws a minibatch of rows [S, 1], with their `indices` [S].

        Args:
            batch_size: Rows in it, S.
            env_steps: Env steps so far, on which nothing depends.
        """
        self.drawn_batches += 1
        indices = self._generator.integers(self.num_ready, size=batch_size)
        batch = self._columns.map(lambda leaf: leaf[indices][:, None])
        return SampleBatch(batch, valid=np.ones((batch_size, 1), np.bool_), indices=indices)

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Does nothing: rows are sampled uniformly."""

    @property
    def is_saved(self) -> bool:
        """Whether checkpoints hold the rows."""
        return self.config.saves(self.num_bytes)

    def state(self) -> dict[str, Any]:
        """Returns the state of the draws, and copies of the rows if checkpoints hold them."""
        state: dict[str, Any] = {"generator": dict(self._generator.bit_generator.state), "kept": None}
        if self.is_saved:
            state["kept"] = {
                "stored_steps": self.stored_steps,
                "drawn_batches": self.drawn_batches,
                "columns": dict(self._columns.map(lambda leaf: leaf[: self.num_ready].copy())),
            }
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores `state()` of a replay with the same settings into an empty one.

        Where nothing was saved it stays empty, and is filled again before anything is learned.
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
