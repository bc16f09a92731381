"""Training on minibatches that C kernels draw and read from a replay buffer's memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch, concatenated_rows
from rlrun.engine.kernels.steps import Array
from rlrun.engine.learner.executors.c_update import CUpdate
from rlrun.engine.learner.executors.replay_update import ReplayUpdate
from rlrun.engine.learner.local_learner import LocalLearner
from rlrun.engine.learner.minibatch_updates import NO_PRIORITIES
from rlrun.engine.learner.minibatches import Selection

if TYPE_CHECKING:
    from rlrun.engine.learner.learner import Learner, TargetUpdates
    from rlrun.engine.replay.transition_reader import UnreadMinibatches


class ReplaySteps:
    """Updates parameters on a replay buffer's minibatches; successive ones with the same losses share a call into C.

    The first minibatch of each shape and set of losses is read as rows, from which the update is traced.

    Args:
        learner: The learner, whose updates run in C kernels.
    """

    def __init__(self, learner: LocalLearner) -> None:
        self._learner = learner
        self._bound: dict[CUpdate, ReplayUpdate] = {}

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
            scheduled: Current values of scheduled settings by name, including learning rates.
            objectives: Names of the objectives to run, as in `LocalLearner.step`; None for all.
            target: When and how the target network follows; None if it is not updated.
            seen: Number of minibatches since the last update of the target network.

        Returns:
            New replay priorities of the last minibatch, one per row; empty if the loss computes none.
        """
        learner, number = self._learner, memory.number
        learner.weights_version += number
        learner.sgd_steps += number
        learner.updates.totals.begin_update()
        settings = learner.staging.settings(scheduled)
        noise = [contiguous(learner.policy.draws(learner.generator, memory.size, 1)) for _ in range(number)]
        updates, priorities, done = learner.updates, NO_PRIORITIES, 0
        due = [updates.counts.due(objectives) for _ in noise]
        while done < number:
            update = updates.update_of(due[done])[0] if due[done] else None
            made = None if update is None else updates.execution.made(update, (memory.size, 1))
            if update is None or not isinstance(made, CUpdate):
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
                bound = self._bound_to(made, memory, noise[done], len(update.statistics), target)
                own = concatenated_rows(noise[done : done + count])
                others = updates.execution.others(updates.applied(settings))
                totals = updates.totals.to_add(update.statistics, count)
                priorities = bound(memory, count, own, others, totals, seen + done)
                learner.last_batch = bound.last_batch
                updates.adapt()
            done += count
        return priorities

    def _bound_to(
        self,
        made: CUpdate,
        memory: UnreadMinibatches,
        noise: Mapping[str, Array],
        num_totals: int,
        target: TargetUpdates | None,
    ) -> ReplayUpdate:
        """Returns the update, bound to the memory of a replay buffer."""
        bound = self._bound.get(made)
        if bound is None or bound.reader is not memory.reader or bound.target is not target:
            bound = self._bound[made] = ReplayUpdate(
                made,
                memory.reader,
                memory.size,
                noise,
                is_weighted=memory.weights is not None,
                num_totals=num_totals,
                parameters=self._learner.parameters,
                target=target,
            )
        return bound


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


def contiguous(columns: Mapping[str, Array]) -> Mapping[str, Array]:
    """Returns columns whose memory C can read row by row; columns that are part of a larger array are copied."""
    return {name: np.ascontiguousarray(column) for name, column in columns.items()}
