"""SGD on minibatches of a replay buffer, and updates of target networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.settings.metric import Metric
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee
    from rlrun.engine.learner.learner import TargetUpdates
    from rlrun.engine.learner.replay_steps import ReplaySteps
    from rlrun.engine.replay.transition_reader import UnreadMinibatches

REPLAY_STEPS = "rlrun.engine.learner.replay_steps:replay_steps"
"""Import path of the training step for minibatches that C kernels read from a replay buffer's memory."""

NO_INDICES, NO_PRIORITIES = np.zeros(0, np.int64), np.zeros(0, np.float32)

T = TypeVar("T")


@dataclass(slots=True)  # created for each update; a frozen instance would take three times as long
class TrainedMinibatch:
    """Result of SGD on replay minibatches: the indices of their rows, and the rows' new priorities.

    Attributes:
        indices: Indices of the minibatches' rows in the replay buffer; empty if the learner drew them itself.
        priorities: New priorities of the rows; empty if the loss computes none, or for several minibatches.
        number: Number of minibatches.
    """

    indices: NDArray[np.int64]
    priorities: NDArray[np.float32]
    number: int = 1


class TrainOnMinibatch(StatefulOperator):
    """Takes one SGD step on each replay minibatch; its metric is the number of minibatches per env step.

    Args:
        trainee: The policy in training.
        objectives: Names of the losses to minimize on these minibatches; None for all.
        minibatch_size: Rows of a minibatch, if one item may contain several minibatches; None if each item is one
            minibatch.
        target: When and how the target network follows the parameters after a minibatch; None if it is not updated.
    """

    learns = True

    def __init__(
        self,
        trainee: Trainee,
        objectives: Sequence[str] | None = None,
        minibatch_size: int | None = None,
        target: TargetUpdates | None = None,
    ) -> None:
        self.trainee = trainee
        self.objectives = objectives
        self.minibatch_size = minibatch_size
        self.target = target
        self._minibatches = 0
        self._seen = 0  # minibatches since the last update of the target network

    @override
    def settings(self) -> dict[str, Any]:
        shown = {} if self.objectives is None else {"objectives": ", ".join(self.objectives)}
        if self.target is None:
            return shown
        return {**shown, "target_update_interval": self.target.every, "tau": self.target.tau}

    @override
    def __call__(self, item: SampleBatch | UnreadMinibatches) -> TrainedMinibatch:
        """Takes one SGD step on each minibatch of rows [S, ...]."""
        scheduled = self.trainee.clock.scheduled()
        if type(item) is not SampleBatch and (step := self._replay_steps) is not None:
            number, target, seen = item.number, self.target, self._seen
            indices = NO_INDICES if item.chosen is None else item.chosen
            priorities = step(item, scheduled=scheduled, objectives=self.objectives, target=target, seen=seen)
            self._seen = 0 if target is None else (seen + number) % target.every
        else:
            rows = SampleBatch(item) if type(item) is SampleBatch else item.read(item.number)
            indices = rows.pop("indices")
            number = 1 if self.minibatch_size is None else len(indices) // self.minibatch_size
            priorities = self._learn_from(rows, number, scheduled)
        self._minibatches += number
        return TrainedMinibatch(indices, priorities, number)

    @cached_property
    def _replay_steps(self) -> ReplaySteps | None:
        """Returns the training step for minibatches that C kernels draw and read; None if they are read beforehand."""
        made: ReplaySteps | None = load_internal(REPLAY_STEPS)(self.trainee.learner)
        return made

    def _learn_from(self, rows: SampleBatch, number: int, scheduled: dict[str, float]) -> NDArray[np.float32]:
        """Learns from minibatches that have been read; returns new priorities if there is a single minibatch."""
        learner, target, done = self.trainee.learner, self.target, 0
        size, priorities = len(rows["valid"]) // number, NO_PRIORITIES
        while done < number:
            step = number - done if target is None else min(number - done, target.every - self._seen)
            own = slice(done * size, (done + step) * size)
            part = rows if step == number else rows.map(itemgetter(own))
            priorities = learner.step(part, scheduled=scheduled, objectives=self.objectives, minibatches=step)
            done += step
            if target is not None:
                self._seen = (self._seen + step) % target.every
                if not self._seen:
                    learner.update_target(target.tau)
        return priorities if number == 1 else NO_PRIORITIES

    @override
    def state(self) -> dict[str, Any]:
        """Returns the number of minibatches since the last update of the target network, for checkpoints."""
        return {"seen": self._seen}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._seen = int(state["seen"])

    declared_metrics = (
        Metric("minibatches_per_env_step", "minibatches", "Minibatches for each env step of this iteration"),
    )

    @override
    def metrics(self) -> dict[str, float]:
        """Returns the number of minibatches per env step since the last call."""
        minibatches, self._minibatches = self._minibatches, 0
        return {"minibatches_per_env_step": minibatches / max(self.trainee.clock.env_steps_this_iteration, 1)}


class UpdateTargetNetwork(StatefulOperator):
    """Moves the target network towards the learned parameters once every `every` items.

    The update is target <- (1 - tau) * target + tau * parameters.

    Args:
        trainee: The policy in training, whose learner has the target network.
        every: Number of items (minibatches, if the items come from a replay buffer) between two updates.
        tau: Coefficient of the soft update; 1 copies the parameters.
        prefix: Prefix of the names of the updated parameters; "" for all.
    """

    def __init__(self, trainee: Trainee, every: int, tau: float = 1.0, prefix: str = "") -> None:
        self.trainee = trainee
        self.every = every
        self.tau = tau
        self.prefix = prefix
        self._items = 0

    @override
    def settings(self) -> dict[str, Any]:
        prefix = {"prefix": self.prefix} if self.prefix else {}
        return {"every": self.every, **({} if self.tau == 1.0 else {"tau": self.tau}), **prefix}

    @override
    def __call__(self, item: T) -> T:
        self._items += item.number if isinstance(item, TrainedMinibatch) else 1
        if self._items % self.every == 0:
            self.trainee.learner.update_target(self.tau, self.prefix)
        return item

    @override
    def state(self) -> dict[str, Any]:
        """Returns the number of items since the last update of the target network, for checkpoints."""
        return {"items": self._items}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._items = int(state["items"])
