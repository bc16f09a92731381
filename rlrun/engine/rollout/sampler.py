"""Sampler: a rollout worker together with its postprocessing operators."""

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
    """Operators that a worker applies to one policy's batches."""

    def __call__(self, item: SampleBatch) -> Any:
        """Applies the operators to a batch; returns the item for delivery."""
        ...

    def for_worker(self, worker: int) -> Postprocessing:
        """Returns the operators for one worker, at its start and each restart."""
        ...

    def begin(self) -> None:
        """Initializes the operators on the worker."""
        ...

    def set_weights(self, weights: Weights) -> None:
        """Receives new weights of the behavior policy, on the worker."""
        ...

    def take_sgd_s(self) -> float:
        """Returns the seconds of SGD on the worker since the last call."""
        ...

    def close(self) -> None:
        """Releases the operators' resources; called on the worker, and then on the driver."""
        ...

    def state(self) -> dict[str, Any]:
        """Returns the state of the stateful operators."""
        ...

    def unsaved(self) -> list[str]:
        """Returns the reasons why a resume from a checkpoint taken now would not be exact."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the stateful operators from `state()`."""
        ...


class Sampler:
    """Rollout worker with postprocessing operators, in the trial's own process or in a Ray actor.

    The constructor creates the worker and initializes the operators.

    Args:
        worker: The worker's index.
        factory: `module:Name` of a `Worker` class, instantiated with its config.
        config: Config that all workers share.
        operators: Operators on this worker, by policy.
        due: Number of the sampler's first fragment.
        tells_place: Whether each rollout includes the sampler's state after collection.
        marks: Directory of the worker's step marks (`rlrun.engine.envs.step_marks`); None for that of the process.
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
        tells_place: bool = False,
        marks: StepMarkLocation | None = None,
        state: Any = None,
    ) -> None:
        keep_marks_at(marks)
        self.worker = _worker(factory, dataclasses.replace(config, worker_index=worker, first_fragment=due))
        self._operators = operators
        for chain in operators.values():
            chain.begin()
        self._tells_place = tells_place
        self._restarted = 0 if state is None else self.load_state(state)

    def follow(self, orders: Orders) -> None:
        """Forwards orders to the worker, and new weights to the policies' operators."""
        self.worker.follow(orders)
        for policy, latest in orders.weights.items():
            if policy in self._operators:
                self._operators[policy].set_weights(latest)

    def sample(self) -> Rollout:
        """Collects one fragment and applies the operators to its batches."""
        rollout = self._processed(self.worker.sample())
        if not self._tells_place:
            return rollout
        restarted, self._restarted = self._restarted, 0
        return dataclasses.replace(rollout, place=self._state(self.worker.place()), env_slots_restarted=restarted)

    def _processed(self, rollout: Rollout) -> Rollout:
        if not self._operators:
            return rollout
        processed = {policy: apply(rollout.batches[policy]) for policy, apply in self._operators.items()}
        sgd_s = sum(chain.take_sgd_s() for chain in self._operators.values())
        times = rollout.times and rollout.times.extended(sgd_s)
        return dataclasses.replace(rollout, batches={**rollout.batches, **processed}, times=times)

    def state(self) -> dict[str, Any]:
        """Returns the states of the worker and its operators, and the reasons why restoring them would not be exact."""
        return self._state(self.worker.state())

    def _state(self, worker: Any) -> dict[str, Any]:
        remembered = {policy: chain.state() for policy, chain in self._operators.items()}
        unsaved = [reason for chain in self._operators.values() for reason in chain.unsaved()]
        return {"worker": worker, "postprocessing": remembered, "unsaved": unsaved}

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Restores worker and operators from `state()`; returns the number of env slots without an exact restore."""
        for policy, chain in self._operators.items():
            chain.load_state(state["postprocessing"][policy])
        return self.worker.load_state(state["worker"])

    def close(self) -> None:
        """Closes the operators and the worker."""
        for chain in self._operators.values():
            chain.close()
        self.worker.close()


def _worker(factory: str, config: Any) -> Worker:
    """Instantiates a worker from the import path of its class."""
    module, _, name = factory.partition(":")
    made: Worker = getattr(importlib.import_module(module), name)(config)
    return made
