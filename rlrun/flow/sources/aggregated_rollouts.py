"""Rollouts through aggregators: a tree with workers as leaves and the driver as root.

Plain asynchronous rollouts cost the driver a request, an answer and often a message with weights for every fragment.
With aggregators it has those for every batch: workers send their fragments to an aggregator, which joins them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.flow.nodes import Delivered
from rlrun.flow.sources.rollouts import AsyncRollouts

if TYPE_CHECKING:
    from rlrun.flow.collecting_workers import CollectingWorkers


class AggregatedRollouts(AsyncRollouts):
    """Batches of aggregators in the order in which they are ready."""

    source_name = "aggregated_rollouts"

    def __init__(self, workers: CollectingWorkers, policy: str, in_flight: int, settings: dict[str, Any]) -> None:
        super().__init__(workers, policy, (), in_flight, settings)

    @override
    def receive_all(self) -> None:
        """Counts the fragments of batches that have arrived; aggregators without a full batch are asked again."""
        for joined in self.workers.joined():
            for rollout in joined.fragments:
                self.workers.counts.count(rollout)
            if joined.batch is None:
                self.workers.request(joined.aggregator)
            else:
                self.here.append(Delivered(joined.batch, joined.aggregator))

    @override
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores the waiting batches; those of an aggregator that no longer exists have no worker."""
        super().load_state(state)
        known = self.workers.deliverers
        self.here = deque(Delivered(value, worker if worker in known else None) for value, worker in self.here)
