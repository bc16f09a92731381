"""A rollout worker with the operators that its batches pass before they leave it."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from rlrun.envs.step_marks import MarksPlace, keep_marks_at
from rlrun.errors import UsageError

if TYPE_CHECKING:
    from rlrun.data.sample_batch import SampleBatch
    from rlrun.policy.weights import Weights
    from rlrun.rollout.rollout import Rollout
    from rlrun.rollout.worker import Orders, Worker


class Postprocessing(Protocol):
    """What one policy's batches pass on the worker."""

    def __call__(self, item: SampleBatch) -> Any:
        """Returns the batch, or what was made of it, as it leaves the worker."""
        ...

    def for_worker(self, worker: int) -> Postprocessing:
        """Returns what is sent to a worker when it is made, or made anew."""
        ...

    def begin(self) -> None:
        """Prepares itself on the worker."""
        ...

    def set_weights(self, weights: Weights) -> None:
        """Is told on the worker which weights act from now on."""
        ...

    def take_sgd_s(self) -> float:
        """Returns the seconds in which it learned on the worker since the last call."""
        ...

    def close(self) -> None:
        """Frees what it holds, first on the worker and then on the driver."""
        ...

    def state(self) -> dict[str, Any]:
        """Returns what it remembers."""
        ...

    def unsaved(self) -> list[str]:
        """Returns what a state of now lacks, so that a run goes on otherwise."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Goes on with what `state` returned."""
        ...


class Sampler:
    """Samples fragments, and applies the operators; runs in the trial's own process or inside an actor.

    Making one makes the worker and has the operators prepare themselves.

    Args:
        worker: The worker's index.
        factory: `module:Name` of what makes the `Worker` from its config.
        config: What all workers are made from.
        operators: What the batches pass on this worker, by policy.
        due: Number of its first fragment.
        tells_place: Whether each rollout tells where it is then.
        marks: Where it notes which env slot it steps, None for nowhere else than its process does.
        state: Where it goes on; None at its beginning.

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
        marks: MarksPlace | None = None,
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
        """Gives the worker its orders, and the operators the weights of their policies."""
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
        """Returns where the worker is, what its operators remember, and what is lacking of that."""
        return self._state(self.worker.state())

    def _state(self, worker: Any) -> dict[str, Any]:
        remembered = {policy: chain.state() for policy, chain in self._operators.items()}
        unsaved = [reason for chain in self._operators.values() for reason in chain.unsaved()]
        return {"worker": worker, "postprocessing": remembered, "unsaved": unsaved}

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Returns to where it was, and returns how many env slots could not be brought back exactly."""
        for policy, chain in self._operators.items():
            chain.load_state(state["postprocessing"][policy])
        return self.worker.load_state(state["worker"])

    def close(self) -> None:
        """Frees what the operators and the worker hold."""
        for chain in self._operators.values():
            chain.close()
        self.worker.close()


def _worker(factory: str, config: Any) -> Worker:
    """Makes a worker.

    Raises:
        UsageError: It has former methods in place of `follow`.
    """
    module, _, name = factory.partition(":")
    made: Worker = getattr(importlib.import_module(module), name)(config)
    if not callable(getattr(made, "follow", None)):
        raise UsageError(
            f"the worker {factory} lacks follow(self, orders: Orders) -> None, which takes the place of set_weights, "
            "set_env_kwargs and measure_phases: orders.weights holds new weights by policy (none if they stay), "
            "orders.env_kwargs what a curriculum gives the envs; see rlrun.rollout.worker and docs/upgrading.md"
        )
    return made
