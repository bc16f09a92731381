"""Training on minibatches that C kernels draw and read from a replay buffer's memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.kernels.steps import Array
from rlrun.engine.learner.executors.c_update import CUpdate
from rlrun.engine.learner.executors.replay_update import ReplayUpdate
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.learner.minibatch_updates import NO_PRIORITIES
from rlrun.engine.learner.minibatches import Selection

if TYPE_CHECKING:
    from torch import Tensor

    from rlrun.engine.learner.learner import Learner, TargetUpdates
    from rlrun.engine.learner.objective import Objective
    from rlrun.engine.replay.transition_reader import UnreadMinibatches


class ReplaySteps:
    """Updates parameters on a replay buffer's minibatches; successive ones with the same losses share a call into C.

    The first minibatch of each shape and set of losses is read as rows, from which the update is traced.

    Args:
        learner: The learner, whose updates run in C kernels.
    """

    def __init__(self, learner: LocalLearner) -> None:
        self._learner = learner
        self._bound: dict[tuple[int, ...], ReplayUpdate] = {}  # by ids of the objectives
        self._settings: tuple[Mapping[str, float], Mapping[str, Tensor], Sequence[Tensor]] = ({}, {}, ())

    def __call__(
        self,
        memory: UnreadMinibatches,
        *,
        scheduled: Mapping[str, float],
        objectives: Collection[str] | None = None,
        target: TargetUpdates | None = None,
        seen: int = 0,
    ) -> NDArray[np.float32]:
        """Trains on all minibatches that are due, and updates the target network.

        Args:
            memory: Source of the minibatches.
            scheduled: Current values of scheduled settings by name, including learning rates; the same object while
                none has changed.
            objectives: Names of the objectives to run, as in `LocalLearner.step`; None for all.
            target: Interval and rate of target network updates; None if the target network is not updated.
            seen: Number of minibatches since the last update of the target network.

        Returns:
            New replay priorities of the last minibatch, one per row; empty if the loss computes none.
        """
        learner, number = self._learner, memory.number
        learner.weights_version += number
        learner.sgd_steps += number
        updates, draws, counted = learner.updates, learner.policy.draws, learner.updates.counts.due
        updates.totals.begin_update()
        if self._settings[0] is not scheduled:
            tensors = learner.staging.settings(scheduled)
            self._settings = scheduled, tensors, updates.execution.others(tensors)
        _, settings, others = self._settings
        noise, due, priorities, done = [], [], NO_PRIORITIES, 0
        for _ in range(number):
            noise += [draws(learner.generator, memory.size, 1)]
            due += [counted(objectives)]
        while done < number:
            bound = self._bound_to(due[done], memory, noise[done], target)
            if bound is None:
                count, rows = 1, memory.read(1)
                del rows["indices"]
                selection = Selection(SampleBatch(rows, **noise[done]))
                priorities = updates.run_due(due[done : done + 1], selection, settings)
                learner.last_batch = rows
                if target is not None and (seen + done + 1) % target.every == 0:
                    learner.update_target(target.tau)
            else:
                is_alone = number == 1 or updates.adapts_after_minibatches
                count = 1 if is_alone else run_length(due[done:])
                if updates.rates is not None:
                    others = updates.execution.others(updates.applied(settings))
                totals = updates.totals.to_add(bound.statistics, count)
                priorities = bound(memory, count, noise[done : done + count], others, totals, seen + done)
                learner.last_batch = bound.last_batch
                if updates.rates is not None:
                    updates.adapt()
            done += count
        return priorities

    def _bound_to(
        self,
        due: tuple[Objective, ...],
        memory: UnreadMinibatches,
        noise: Mapping[str, Array],
        target: TargetUpdates | None,
    ) -> ReplayUpdate | None:
        """Returns the update by some objectives on a replay buffer's memory; None until translated to C kernels."""
        key = tuple(map(id, due))
        if key in self._bound:
            bound = self._bound[key]
            if bound.reader is memory.reader and bound.size == memory.size and bound.target is target:
                return bound
        updates = self._learner.updates
        update = updates.update_of(due)[0] if due else None
        columns = (*memory.reader.names, *noise)
        made = None if update is None else updates.execution.made(update, (memory.size, 1), columns)
        if update is None or not isinstance(made, CUpdate):
            return None
        self._bound[key] = ReplayUpdate(
            made,
            memory.reader,
            memory.size,
            noise,
            is_weighted=memory.weights is not None,
            statistics=update.statistics,
            parameters=self._learner.parameters,
            target=target,
        )
        return self._bound[key]


def replay_steps(learner: Learner) -> ReplaySteps | None:
    """Returns the training step on a replay buffer's memory; None if updates do not run in C kernels."""
    if isinstance(learner, LocalLearner) and learner.update_executor == "c" and learner.updates.takes_rows:
        return ReplaySteps(learner)
    return None


def run_length(items: Sequence[object]) -> int:
    """Returns the number of leading items that equal the first one.

    Examples:
        >>> run_length("aab")
        2
    """
    return next((k for k, item in enumerate(items) if item != items[0]), len(items))
