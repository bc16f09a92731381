"""Rollout worker in the trial's own process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlrun.engine.functional.saved_numbers import as_count
from rlrun.engine.rollout.rollout import Rollout
from rlrun.engine.rollout.sampler import Postprocessing, Sampler
from rlrun.engine.rollout.worker_config import LOCAL_INDEX

if TYPE_CHECKING:
    from rlrun.engine.rollout.worker import Orders


class LocalWorkers:
    """The only rollout worker of a trial without remote workers; collects a fragment in each call of `arrived`.

    Args:
        factory: `module:Name` of a `Worker` class, instantiated with its config.
        config: The worker's config.
        operators: Postprocessing that the worker applies to each policy's batches.

    Attributes:
        sampler: The worker, with the postprocessing of its batches.
        restarts: Number of worker restarts, always 0.
    """

    restarts = 0

    def __init__(self, factory: str, config: Any, operators: Mapping[str, Postprocessing]) -> None:
        own = {policy: chain.for_worker(LOCAL_INDEX) for policy, chain in operators.items()}
        self.sampler = Sampler(LOCAL_INDEX, factory, config, own)
        self._requests = 0
        self._due = 0

    def order(self, orders: Orders, only: int | None = None) -> None:
        """Passes new weights or env keyword arguments to the worker."""
        self.sampler.follow(orders)

    def request(self, worker: int) -> None:
        """Requests a fragment, which the next call of `arrived` collects."""
        self._requests += 1

    def arrived(self) -> list[Rollout]:
        """Collects the next requested fragment, and returns it."""
        if not self._requests:
            return []
        self._requests -= 1
        rollout = self.sampler.sample()
        self._due = rollout.fragment + 1
        return [rollout]

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns no references and no deadline, since a local worker samples only when `arrived` is called."""
        return (), math.inf

    def due(self) -> list[int]:
        """Returns the index (from 0) of the worker's next fragment, as a list with one entry."""
        return [self._due]

    def states(self) -> list[Any]:
        """Returns the worker's state, as a list with one entry."""
        return [self.sampler.state()]

    def load_states(self, states: Sequence[Any], due: Sequence[int]) -> int:
        """Restores the worker's state, and drops pending requests."""
        self._requests = 0
        self._due, state = as_count(due[0]), states[0]
        return self.sampler.load_state(state)

    def close(self) -> None:
        """Closes the worker and its envs."""
        self.sampler.close()
