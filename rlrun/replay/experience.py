"""What a dataflow asks of a replay in its own process."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.data.sample_batch import SampleBatch
from rlrun.replay.replay_config import ReplayConfig


class Experience(Protocol):
    """Kept experience, of single steps or of sequences."""

    @property
    def stored_steps(self) -> int:
        """Steps put by since it was empty."""
        ...

    @property
    def drawn_batches(self) -> int:
        """Minibatches drawn since then."""
        ...

    @property
    def config(self) -> ReplayConfig:
        """Its settings."""
        ...

    @property
    def num_ready(self) -> int:
        """Steps or sequences that can be drawn."""
        ...

    @property
    def num_bytes(self) -> int:
        """Bytes that are set aside."""
        ...

    def add(self, lane: int, fragment: SampleBatch) -> int:
        """Puts a fragment [T, B] of a worker by and returns how many steps it holds."""
        ...

    def sample(self, batch_size: int, env_steps: int) -> SampleBatch:
        """Draws a minibatch of S rows, with the `cells` [S] by which priorities are told."""
        ...

    def update_priorities(self, cells: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Takes how much is to be learned from rows still, [S]; nothing is told where a loss says nothing."""
        ...

    def state(self) -> dict[str, Any]:
        """Returns everything that is kept, and the state of the draws."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned."""
        ...
