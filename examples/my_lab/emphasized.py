"""A custom replay sampler that emphasizes recent experience (ERE)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.plugin import Rows, RowSampler

Indices = NDArray[np.int64]


class EmphasizedRecent(RowSampler):
    """Draws the k-th minibatch after new experience from the newest rows.

    Of N rows, minibatch k of the K that are due takes the newest
    c_k = max(N eta^(1000 k / K), c_min), fewer for larger k. During the run, eta rises
    to 1, and minibatches are then drawn uniformly from all rows.

    Source:
        Wang and Ross, "Boosting Soft Actor-Critic: Emphasizing Recent Experience
        without Forgetting the Past", arXiv:1906.04009, section 4.1.

    Args:
        rows: The rows of the replay.
        updates: Minibatches K between two insertions of experience: steps of a fragment
            times `training_intensity`.
        anneal_steps: Env steps after which eta is 1.
        eta: The first eta.
        at_least: The fewest rows c_min that a minibatch is drawn from.
    """

    def __init__(
        self,
        rows: Rows,
        updates: int,
        anneal_steps: int,
        eta: float = 0.996,
        at_least: int = 5000,
    ) -> None:
        self._rows = rows
        self._updates = updates
        self._anneal_steps = anneal_steps
        self._eta = eta
        self._at_least = at_least
        # `_order` is a ring of indices in order of addition; `_places` holds each
        # index's latest position in it, or -1 if the index was removed.
        self._order: Indices = np.zeros(rows.num_indices, np.int64)
        self._places: Indices = np.full(rows.num_indices, -1, np.int64)
        self._added = 0
        self._drawn = 0

    @override
    def add(self, indices: Indices, priorities: NDArray[Any] | None) -> None:
        """Records the order of new rows, and restarts the count of minibatches."""
        places = self._added + np.arange(len(indices))
        self._order[places % len(self._order)] = indices
        self._places[indices] = places
        self._added += len(indices)
        self._drawn = 0

    @override
    def remove(self, indices: Indices) -> None:
        self._places[indices] = -1

    def num_recent(self, number: int, env_steps: int) -> int:
        """Number c_k of the newest rows to draw minibatch k from (eq. 1)."""
        eta = self._eta + (1.0 - self._eta) * min(env_steps / self._anneal_steps, 1.0)
        num_rows = self._rows.num_ready
        return min(
            max(int(num_rows * eta ** (1000 * number / self._updates)), self._at_least),
            num_rows,
        )

    @override
    def draw(
        self,
        generator: np.random.Generator,
        batch_size: int,
        number: int,
        env_steps: int,
    ) -> tuple[Indices, NDArray[np.float32]]:
        """Draws uniformly from the newest rows; redraws rows that were removed."""
        drawn: Indices = np.zeros((number, batch_size), np.int64)
        for minibatch in drawn:
            self._drawn += 1
            num_recent = self.num_recent(self._drawn, env_steps)
            again = np.arange(batch_size)
            while len(again):
                drawn_ages = generator.integers(num_recent, size=len(again))
                places = self._added - 1 - drawn_ages
                minibatch[again] = self._order[places % len(self._order)]
                again = again[self._places[minibatch[again]] != places]
        return drawn.reshape(-1), np.ones(drawn.size, np.float32)

    @property
    @override
    def num_bytes(self) -> int:
        return self._order.nbytes + self._places.nbytes

    @override
    def state(self) -> dict[str, Any]:
        """Returns the order of the rows, and the minibatches since the last rows."""
        arrays = {"order": self._order.copy(), "places": self._places.copy()}
        return {**arrays, "added": self._added, "drawn": self._drawn}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._order, self._places = np.array(state["order"]), np.array(state["places"])
        self._added, self._drawn = state["added"], state["drawn"]
