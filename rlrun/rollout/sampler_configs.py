"""What the samplers of a worker set are made from."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rlrun.envs.step_marks import marks_place
from rlrun.functional.saved_numbers import as_count
from rlrun.rollout.action_log import with_logs_joined
from rlrun.rollout.rollout import Rollout
from rlrun.rollout.sampler import Postprocessing, SamplerConfig


class SamplerConfigs:
    """Gives each worker what its sampler is made from, and knows where each worker is.

    Args:
        factory: `module:Name` of what makes a `Worker` from its config.
        config: What all workers share.

    Attributes:
        postprocessing: What batches pass on the workers, by policy.
        keeps_states: Whether samplers tell with each fragment where they stand, so that one that is made anew goes on
            there. It has to be said before the first is made.
        marks: Where samplers note what they step, None for nowhere.
    """

    def __init__(self, factory: str, config: Any) -> None:
        self.postprocessing: dict[str, Postprocessing] = {}
        self._factory = factory
        self._config = config
        self.keeps_states = False
        self.marks = marks_place()
        self._due: Counter[int] = Counter()
        self._states: dict[int, Any] = {}

    def of(self, worker: int) -> SamplerConfig:
        """Returns what a worker's sampler is made from; one made anew goes on with the fragment that is due.

        Where states are kept it goes on from the last one, which makes the fragment the one that was lost.
        """
        changes: dict[str, Any] = {"worker_index": worker}
        if self._due[worker]:
            changes["first_fragment"] = self._due[worker]
        operators = {policy: chain.for_worker(worker) for policy, chain in self.postprocessing.items()}
        own = dataclasses.replace(self._config, **changes)
        return SamplerConfig(self._factory, own, operators, self._states.get(worker), self.keeps_states, self.marks)

    def note(self, rollouts: Iterable[Rollout]) -> None:
        """Notes which fragments were delivered, and where their samplers stand."""
        for rollout in rollouts:
            self._due[rollout.worker_index] = rollout.fragment + 1
            if self.keeps_states:
                before = self._states.get(rollout.worker_index)
                self._states[rollout.worker_index] = with_logs_joined(rollout.place, before)

    def due(self, workers: Sequence[int]) -> list[int]:
        """Returns the numbers with which the workers' undelivered fragments begin."""
        return [self._due[worker] for worker in workers]

    def load_due(self, workers: Sequence[int], fragments: Sequence[int]) -> None:
        """Goes on with what `due` returned."""
        self._due.update(dict.fromkeys(workers, 0))
        for worker, fragment in zip(workers, fragments, strict=True):
            self._due[worker] = as_count(fragment)

    def load_states(self, workers: Sequence[int], states: Sequence[Any]) -> None:
        """Notes where samplers stand that were brought back there."""
        if self.keeps_states:
            self._states = dict(zip(workers, states, strict=True))
