"""Operator that runs SGD on batches of experience."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from rlrun.engine.data.learning_rows import has_empty_rows, learning_rows, rows_with_steps
from rlrun.engine.data.sample_batch import LOGGED, SampleBatch
from rlrun.engine.flow.flow import Operator
from rlrun.engine.settings.registry import load_internal

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee

PARTS = {"advantages of each epoch": "rlrun.engine.flow.operators.recomputation:RecomputedAdvantages"}
"""Import paths of functions that only some trainings need."""


class TrainOnBatch(Operator):
    """Runs epochs of minibatch SGD on each batch.

    Args:
        trainee: The policy in training.
        num_epochs: Passes over the batch.
        minibatch_size: Steps in a minibatch; None for the whole batch.
        whole_fragments: Whether the losses need sequences [B, T + 1] (whole fragments of T steps in B env slots, and
            the observation after them) instead of single steps.
        seq_len: Steps per sequence of a recurrent policy, a divisor of `minibatch_size`; None for single steps.
        stop: Early stopping (statistic, bound): stops after an epoch in which the statistic's mean exceeds the bound.
        objectives: Names of the losses to minimize; None for all.
        recompute: Operators that add advantages to a batch with values, to be run again with the current network's
            values before each epoch except the first; empty for no recomputation.
    """

    learns = True

    def __init__(
        self,
        trainee: Trainee,
        *,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        whole_fragments: bool = False,
        seq_len: int | None = None,
        stop: tuple[str, float] | None = None,
        objectives: Sequence[str] | None = None,
        recompute: Sequence[Callable[[SampleBatch], SampleBatch]] = (),
    ) -> None:
        self.trainee = trainee
        self.num_epochs = num_epochs
        self.minibatch_size = minibatch_size
        self.whole_fragments = whole_fragments
        self.seq_len = seq_len
        self.stop = stop
        self.objectives = objectives
        self.recompute = recompute

    @override
    def settings(self) -> dict[str, Any]:
        stop = {} if self.stop is None else {"stop": f"{self.stop[0]} > {self.stop[1]:g}"}
        rows = {"whole_fragments": True} if self.whole_fragments else {}
        sequences = {} if self.seq_len is None else {"seq_len": self.seq_len}
        chosen = {} if self.objectives is None else {"objectives": list(self.objectives)}
        passes = {"num_epochs": self.num_epochs, "minibatch_size": self.minibatch_size}
        again = {"recompute": [type(each).__name__ for each in self.recompute]} if self.recompute else {}
        return {**chosen, **passes, **rows, **sequences, **stop, **again}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Runs the minibatch SGD epochs on a batch [T, B]; returns the batch unchanged.

        Raises:
            UsageError: The policy is recurrent, and `seq_len` is None.
        """
        trainee = self.trainee
        trainee.lag.add(trainee.learner.weights_version, item["weights_version"][item["valid"]])
        length, slots = item["valid"].shape
        batch = SampleBatch({name: item[name] for name in item if name not in ("weights_version", LOGGED)})
        arrange: Callable[[SampleBatch], SampleBatch] = partial(
            learning_rows, seq_len=self.seq_len, whole_fragments=self.whole_fragments
        )
        rows = arrange(batch)
        if trainee.is_sparse and self.minibatch_size is not None and has_empty_rows(item):
            if not rows["valid"].any():
                return item
            arrange = partial(
                rows_with_steps,
                minibatch_size=self.minibatch_size,
                seq_len=self.seq_len,
                whole_fragments=self.whole_fragments,
            )
            rows = arrange(batch)
        recompute = None
        if self.recompute:
            recompute = load_internal(PARTS["advantages of each epoch"])(item, self.recompute, arrange)
        trainee.learner.learn(
            rows,
            num_epochs=self.num_epochs,
            # A whole fragment has T + 1 entries for T steps.
            minibatch_size=self._minibatch_rows(length, slots) * (length + 1 if self.whole_fragments else 1),
            scheduled=trainee.clock.scheduled(),
            stop=self.stop,
            objectives=self.objectives,
            recompute=recompute,
        )
        return item

    def _minibatch_rows(self, length: int, slots: int) -> int:
        if not self.whole_fragments:
            return self.minibatch_size or length * slots
        return slots if self.minibatch_size is None else max(self.minibatch_size // length, 1)
