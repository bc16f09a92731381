"""The one rollout worker of a trial without remote ones, in the trial's own process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlrun.functional.saved_numbers import as_count
from rlrun.rollout.rollout import Rollout
from rlrun.rollout.sampler import Postprocessing, Sampler
from rlrun.rollout.worker_config import LOCAL_INDEX

if TYPE_CHECKING:
    from rlrun.rollout.worker import Orders


class LocalWorkers:
    """Samples in this process, a fragment for each request, when `arrived` is called; ray is never imported.

    Args:
        factory: `module:Name` of what makes the worker from its config.
        config: The worker's config.
        operators: What batches pass on the worker, by policy.

    Attributes:
        sampler: The worker with its operators.
        restarts: How many workers were made anew: never any.
    """

    restarts = 0

    def __init__(self, factory: str, config: Any, operators: Mapping[str, Postprocessing]) -> None:
        own = {policy: chain.for_worker(LOCAL_INDEX) for policy, chain in operators.items()}
        self.sampler = Sampler(LOCAL_INDEX, factory, config, own)
        self._requests = 0
        self._due = 0

    def order(self, orders: Orders, only: int | None = None) -> None:
        """Gives the worker orders."""
        self.sampler.follow(orders)

    def request(self, deliverer: int) -> None:
        """Asks for a fragment."""
        self._requests += 1

    def arrived(self) -> list[Rollout]:
        """Makes the next fragment that was asked for."""
        if not self._requests:
            return []
        self._requests -= 1
        rollout = self.sampler.sample()
        self._due = rollout.fragment + 1
        return [rollout]

    def awaited(self) -> tuple[tuple[Any, ...], float]:
        """Returns that there is nothing to wait for."""
        return (), math.inf

    def due(self) -> list[int]:
        """Returns the number with which the worker's undelivered fragments begin."""
        return [self._due]

    def states(self) -> list[Any]:
        """Returns where the worker is."""
        return [self.sampler.state()]

    def load_states(self, states: Sequence[Any], due: Sequence[int]) -> int:
        """Brings the worker back to where it was; requests are dropped."""
        self._requests = 0
        self._due, state = as_count(due[0]), states[0]
        return self.sampler.load_state(state)

    def close(self) -> None:
        """Ends the worker."""
        self.sampler.close()
