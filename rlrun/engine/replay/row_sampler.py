"""Interface of samplers, which choose the rows of a replay buffer for minibatches (NumPy)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.replay.stores import Indices


class Rows(Protocol):
    """Interface of a replay buffer for its sampler, which chooses rows (transitions or sequences) by index."""

    @property
    def num_indices(self) -> int:
        """Upper bound (exclusive) of the rows' indices; the index of an overwritten row is reused for a newer row."""

    @property
    def num_ready(self) -> int:
        """Number of rows that can be sampled."""

    def draw(self, generator: np.random.Generator, number: int, times: int = 1) -> Indices:
        """Samples indices of rows uniformly with replacement; returns `times` * `number` indices in one array.

        Raises:
            RuntimeError: No row can be sampled yet.
        """


class RowSampler(ABC):
    """Interface of samplers, which choose the rows of minibatches; created once a replay buffer has stored rows.

    A spec names a custom sampler in `replay: {sampling: my_lab.recent:EmphasizedRecent}`. Its constructor receives the
    buffer's `Rows`, and the sampler's settings as keyword arguments. Random numbers come only from the replay's
    generator, whose state the replay saves.

    Attributes:
        learns_priorities: Whether minibatches depend on priorities that `update` set after earlier ones. If so, one
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
        """Excludes rows from sampling, given their indices; called for overwritten rows, for example."""

    @abstractmethod
    def draw(
        self, generator: np.random.Generator, batch_size: int, number: int, env_steps: int
    ) -> tuple[Indices, NDArray[np.float32]]:
        """Samples the rows of minibatches, one minibatch after another.

        Args:
            generator: Random generator to draw with.
            batch_size: Rows of a minibatch.
            number: Number of minibatches; always 1 if `learns_priorities` is True.
            env_steps: Total env steps so far, for schedules of hyperparameters.

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
        """Returns the sampler's state for a checkpoint, with copies of arrays; empty by default."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the sampler's state; the buffer has already restored its rows, without calling `add`."""
        return
