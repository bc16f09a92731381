"""What the samplers of a worker set are made from."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rlrun.rollout.rollout import Rollout
from rlrun.rollout.sampler import Postprocessing, SamplerConfig


class SamplerConfigs:
    """Gives each worker what its sampler is made from, and knows which fragment of each worker is due.

    Args:
        factory: `module:Name` of what makes a `Worker` from its config.
        config: What all workers share.

    Attributes:
        postprocessing: What batches pass on the workers, by policy.
    """

    def __init__(self, factory: str, config: Any) -> None:
        self.postprocessing: dict[str, Postprocessing] = {}
        self._factory = factory
        self._config = config
        self._due: Counter[int] = Counter()

    def of(self, worker: int) -> SamplerConfig:
        """Returns what a worker's sampler is made from; one made anew goes on with the fragment that is due."""
        changes: dict[str, Any] = {"worker_index": worker}
        if self._due[worker]:
            changes["first_fragment"] = self._due[worker]
        operators = {policy: chain.for_worker(worker) for policy, chain in self.postprocessing.items()}
        return SamplerConfig(self._factory, dataclasses.replace(self._config, **changes), operators)

    def note(self, rollouts: Iterable[Rollout]) -> None:
        """Notes which fragments were delivered."""
        for rollout in rollouts:
            self._due[rollout.worker_index] = rollout.fragment + 1

    def due(self, workers: Sequence[int]) -> list[int]:
        """Returns the numbers with which the workers' undelivered fragments begin."""
        return [self._due[worker] for worker in workers]

    def load_due(self, workers: Sequence[int], fragments: Sequence[int]) -> None:
        """Goes on with what `due` returned."""
        self._due.update(dict.fromkeys(workers, 0))
        for worker, fragment in zip(workers, fragments, strict=True):
            self._due[worker] = fragment
