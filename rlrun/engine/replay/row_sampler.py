"""Interface of samplers, which choose the rows of a replay buffer for minibatches (NumPy)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.replay.stores import Indices


class Rows(Protocol):
    """Interface of a replay buffer's rows (transitions or sequences), from which a sampler chooses by index."""

    @property
    def num_indices(self) -> int:
        """Upper bound (exclusive) of the rows' indices; the index of an overwritten row is reused for a newer row."""

    @property
    def num_ready(self) -> int:
        """Number of rows that can be sampled."""

    def draw(self, generator: np.random.Generator, number: int, times: int = 1) -> Indices:
        """Samples indices of rows, uniformly with replacement: `times` * `number` indices in one array.

        Raises:
            RuntimeError: No row can be sampled yet.
        """


class RowSampler(ABC):
    """Interface of samplers, which choose the rows of minibatches; created once a replay buffer has stored rows.

    A custom sampler is named in `replay: {sampling: my_lab.recent:EmphasizedRecent}`. It is constructed with the
    `Rows`, and with its settings as keyword arguments. Random numbers come from the replay's generator alone, whose
    state the replay saves.

    Attributes:
        learns_priorities: Whether minibatches depend on priorities that `update` set after earlier ones. Then one
            minibatch is drawn at a time, and a fragment's column `priorities` is passed to `add`.
    """

    learns_priorities: ClassVar[bool] = False

    @abstractmethod
    def add(self, indices: Indices, priorities: NDArray[Any] | None) -> None:
        """Receives the indices of newly stored rows, which can be sampled from now on.

        Args:
            indices: Indices of the rows, [N], in the order of their env steps.
            priorities: Initial priorities of the rows [N], NaN where unknown; None if all are unknown.
        """

    @abstractmethod
    def remove(self, indices: Indices) -> None:
        """Removes rows, given by index, that can no longer be sampled."""

    @abstractmethod
    def draw(
        self, generator: np.random.Generator, batch_size: int, number: int, env_steps: int
    ) -> tuple[Indices, NDArray[np.float32]]:
        """Samples the rows of minibatches, one minibatch after another.

        Args:
            generator: Random generator to draw with.
            batch_size: Rows of a minibatch.
            number: Number of minibatches; 1 where `learns_priorities`.
            env_steps: Total env steps so far, for schedules.

        Returns:
            Indices of the rows, and their weights in the loss (1, or importance weights); both [number * batch_size].
        """

    def update(self, indices: Indices, priorities: NDArray[Any]) -> None:
        """Receives new priorities of rows that were sampled before; does nothing by default."""
        return

    @property
    def num_bytes(self) -> int:
        """Bytes that the sampler has allocated; 0 by default."""
        return 0

    def state(self) -> dict[str, Any]:
        """State of the sampler for a checkpoint, with copies of arrays; empty by default."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the sampler's state; the buffer has already restored its rows, without calling `add`."""
        return
