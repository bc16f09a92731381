"""A rollout worker with the operators that its batches pass before they leave it."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rlrun.envs.step_marks import MarksPlace, keep_marks_at

if TYPE_CHECKING:
    from rlrun.data.sample_batch import SampleBatch
    from rlrun.policy.weights import Weights
    from rlrun.rollout.rollout import Rollout
    from rlrun.rollout.worker import Worker


class Postprocessing(Protocol):
    """What one policy's batches pass on the worker."""

    def __call__(self, item: SampleBatch) -> Any:
        """Returns the batch, or what was made of it, as it leaves the worker."""
        ...

    def for_worker(self, worker: int) -> Postprocessing:
        """Returns what is sent to a worker."""
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


@dataclass(frozen=True)
class SamplerConfig:
    """What a sampler is made from; picklable.

    Attributes:
        factory: `module:Name` of what makes the `Worker` from its config.
        worker: The worker's config.
        postprocessing: What the batches pass, by policy.
        state: Where it goes on; None at its beginning.
        tells_place: Whether each rollout tells where it stands then.
        marks: Where it notes which env slot it steps, None for nowhere.
    """

    factory: str
    worker: Any
    postprocessing: Mapping[str, Postprocessing] = field(default_factory=dict)
    state: Any = None
    tells_place: bool = False
    marks: MarksPlace | None = None


class Sampler:
    """Samples fragments, and applies the operators; runs in the trial's own process or inside an actor.

    Making one makes the worker and has the operators prepare themselves.
    """

    def __init__(self, config: SamplerConfig) -> None:
        keep_marks_at(config.marks)
        module, _, name = config.factory.partition(":")
        self.worker: Worker = getattr(importlib.import_module(module), name)(config.worker)
        self.postprocessing = config.postprocessing
        for operators in self.postprocessing.values():
            operators.begin()
        self._tells_place = config.tells_place
        self._restarted = 0 if config.state is None else self.load_state(config.state)

    def set_weights(self, weights: Mapping[str, Weights]) -> None:
        """Takes over new weights, by policy."""
        self.worker.set_weights(weights)
        for policy, latest in weights.items():
            if policy in self.postprocessing:
                self.postprocessing[policy].set_weights(latest)

    def set_env_kwargs(self, kwargs: Mapping[str, Any]) -> None:
        """Gives the envs what a curriculum says, from each one's next episode on."""
        self.worker.set_env_kwargs(kwargs)

    def sample(self) -> Rollout:
        """Collects one fragment and applies the operators to its batches."""
        rollout = self._processed(self.worker.sample())
        if not self._tells_place:
            return rollout
        restarted, self._restarted = self._restarted, 0
        return dataclasses.replace(rollout, place=self._state(self.worker.place()), env_slots_restarted=restarted)

    def _processed(self, rollout: Rollout) -> Rollout:
        if not self.postprocessing:
            return rollout
        processed = {policy: apply(rollout.batches[policy]) for policy, apply in self.postprocessing.items()}
        sgd_s = sum(operators.take_sgd_s() for operators in self.postprocessing.values())
        times = rollout.times and rollout.times.extended(sgd_s)
        return dataclasses.replace(rollout, batches={**rollout.batches, **processed}, times=times)

    def state(self) -> dict[str, Any]:
        """Returns where the worker is, what its operators remember, and what is lacking of that."""
        return self._state(self.worker.state())

    def _state(self, worker: Any) -> dict[str, Any]:
        remembered = {policy: operators.state() for policy, operators in self.postprocessing.items()}
        unsaved = [reason for operators in self.postprocessing.values() for reason in operators.unsaved()]
        return {"worker": worker, "postprocessing": remembered, "unsaved": unsaved}

    def load_state(self, state: Mapping[str, Any]) -> int:
        """Returns to where it was, and returns how many env slots could not be brought back exactly."""
        for policy, operators in self.postprocessing.items():
            operators.load_state(state["postprocessing"][policy])
        return self.worker.load_state(state["worker"])

    def close(self) -> None:
        """Frees what the operators and the worker hold."""
        for operators in self.postprocessing.values():
            operators.close()
        self.worker.close()
