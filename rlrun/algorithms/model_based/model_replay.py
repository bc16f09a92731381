"""Replay of imagined transitions from the latest rounds of model rollouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlrun.engine.data.restored_rows import RestoredRows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.saved_numbers import as_count, load_generator
from rlrun.engine.functional.seeding import generator


class ModelReplay:
    """Uniform replay of the transitions of the latest rounds of rollouts.

    Args:
        rounds: Number of rounds kept.
        seed: Root seed of the sampling.
    """

    def __init__(self, rounds: int, *, seed: int) -> None:
        self.rounds = rounds
        self._sizes: list[int] = []
        self._kept = SampleBatch()
        self._restored = RestoredRows()
        self._generator = generator(seed, "model replay")

    def __len__(self) -> int:
        """Number of stored transitions."""
        return sum(self._sizes)

    def add(self, transitions: SampleBatch) -> None:
        """Adds a round of transitions [N, 1, ...], and evicts the oldest round beyond `rounds`."""
        self._restored.compare(transitions)
        gone = self._sizes[0] if len(self._sizes) == self.rounds else 0
        self._sizes = [*self._sizes[bool(gone) :], len(transitions["valid"])]
        if not self._kept:
            self._kept = transitions
            return
        self._kept = SampleBatch(
            {name: np.concatenate([column[gone:], transitions[name]]) for name, column in self._kept.items()}
        )

    def sample(self, number: int) -> SampleBatch:
        """Samples transitions uniformly with replacement, [number, 1, ...].

        Raises:
            RuntimeError: If the replay is empty.
        """
        if not len(self):
            raise RuntimeError("nothing can be drawn from a model replay before the first rollouts")
        chosen = self._generator.integers(len(self), size=number)
        return self._kept.map(lambda leaf: leaf[chosen])

    def state(self, *, whole: bool) -> dict[str, Any]:
        """State for a checkpoint: the random generator, and optionally the transitions.

        Args:
            whole: Whether to include the transitions.
        """
        return {
            "generator": dict(self._generator.bit_generator.state),
            "sizes": list(self._sizes) if whole else [],
            "kept": dict(self._kept) if whole else {},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the replay from `state()`."""
        load_generator(self._generator, state["generator"])
        sizes, kept = [as_count(size) for size in state["sizes"]], SampleBatch(state["kept"])
        if any(len(column) != sum(sizes) for column in kept.values()):
            raise ValueError(f"a model replay of {sum(sizes)} transitions has columns of another length")
        self._sizes, self._kept = sizes, kept
        self._restored.load([kept] if kept else [])

    def compare(self, transitions: SampleBatch) -> None:
        """Validates restored transitions against the first transitions [N, 1, ...] added after a restore.

        Raises:
            CheckpointError: Names, dtypes or shapes differ.
        """
        self._restored.compare(transitions)
