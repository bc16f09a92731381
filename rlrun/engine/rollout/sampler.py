"""Rollout worker combined with the postprocessing of its batches."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from rlrun.engine.envs.step_marks import StepMarkLocation, keep_marks_at

if TYPE_CHECKING:
    from rlrun.engine.data.sample_batch import SampleBatch
    from rlrun.engine.policy.weights import Weights
    from rlrun.engine.rollout.rollout import Rollout
    from rlrun.engine.rollout.worker import Orders, Worker


class Postprocessing(Protocol):
    """Interface of the operators that a worker applies to the batches of one policy."""

    def __call__(self, item: SampleBatch) -> Any:
        """Applies the operators to a batch; returns the item for delivery."""
        ...

    def for_worker(self, worker: int) -> Postprocessing:
        """Returns the operators for one worker, given its index; called whenever the worker starts or restarts."""
        ...

    def begin(self) -> None:
        """Prepares the operators on the worker, before its first batch."""
        ...

    def set_weights(self, weights: Weights) -> None:
        """Receives the new weights of the policy, on the worker."""
        ...

    def take_sgd_s(self) -> float:
        """Returns the seconds that the operators spent on SGD since the last call."""
        ...

    def close(self) -> None:
        """Releases the operators' resources; called both on each worker and in the trial's process."""
        ...

    def state(self) -> dict[str, Any]:
        """Returns the states of the stateful operators, for a checkpoint."""
        ...

    def unsaved(self) -> list[str]:
        """Returns the reasons, if any, why a run resumed from a checkpoint taken now would differ from this run."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the stateful operators from the result of `state()`."""
        ...


class Sampler:
    """Rollout worker with the postprocessing of its batches, in the trial's own process or in a Ray actor.

    The constructor creates the worker and prepares its postprocessing.

    Args:
        worker: The worker's index.
        factory: `module:Name` of a `Worker` class, instantiated with its config.
        config: Config that all workers share.
        operators: Postprocessing of each policy's batches.
        due: Index, from 0, of the first fragment to collect.
        sends_place: Whether each fragment includes the worker's state after collecting the fragment.
        marks: Directory of the file in which the worker notes the env being stepped, for messages after a crash; None
            to keep the process's current file.
        state: State to resume from; None for a new sampler.

    Attributes:
        worker: The worker.
    """

    def __init__(
        self,
        worker: int,
        factory: str,
        config: Any,
        operators: Mapping[str, Postprocessing],
        *,
        due: int = 0,
        sends_place: bool = False,
        marks: StepMarkLocation | None = None,
        state: Any = None,
    ) -> None:
        keep_marks_at(marks)
        self.worker = _worker(factory, dataclasses.replace(config, worker_index=worker, first_fragment=due))
        self._operators = operators
        for chain in operators.values():
            chain.begin()
        self._sends_place = sends_place
        self._restarted = 0 if state is None else self.load_state(state)

    def follow(self, orders: Orders) -> None:
        """Passes new weights and env keyword arguments to the worker, and new weights to the postprocessing."""
        self.worker.follow(orders)
        for policy in self._operators:
            if policy in orders.weights:
                self._operators[policy].set_weights(orders.weights[policy])

    def sample(self) -> Rollout:
        """Collects one fragment, and postprocesses its batches."""
        rollout = self.worker.sample()
        if self._operators:
            rollout = self._processed(rollout)
        if not self._sends_place:
            return rollout
        restarted, self._restarted = self._restarted, 0
        return dataclasses.replace(rollout, place=self._state(self.worker.place()), env_slots_restarted=restarted)

    def _processed(self, rollout: Rollout) -> Rollout:
        processed = {policy: apply(rollout.batches[policy]) for policy, apply in self._operators.items()}
        sgd_s = sum(chain.take_sgd_s() for chain in self._operators.values())
        times = rollout.times and rollout.times.extended(sgd_s)
        return dataclasses.replace(rollout, batches={**rollout.batches, **processed}, times=times)

    def state(self) -> dict[str, Any]:
        """Returns the states of worker and postprocessing, and the reasons why restoring them would not be exact."""
        return self._state(self.worker.state())

    def _state(self, worker: Any) -> dict[str, Any]:
        remembered = {policy: chain.state() for policy, chain in self._operators.items()}
        unsaved = [reason for chain in self._operators.values() for reason in chain.unsaved()]
        return {"worker": worker, "postprocessing": remembered, "unsaved": unsaved}

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Restores worker and postprocessing; returns the number of env slots that could not be restored exactly."""
        for policy, chain in self._operators.items():
            chain.load_state(state["postprocessing"][policy])
        return self.worker.load_state(state["worker"])

    def close(self) -> None:
        """Closes the postprocessing and the worker."""
        for chain in self._operators.values():
            chain.close()
        self.worker.close()


def _worker(factory: str, config: Any) -> Worker:
    """Instantiates a worker from the import path of its class."""
    module, _, name = factory.partition(":")
    made: Worker = getattr(importlib.import_module(module), name)(config)
    return made
