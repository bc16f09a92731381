"""Outputs of the target policy on a batch, for APPO's surrogate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import override

from rlrun.engine.data.learning_rows import target_rows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Operator

if TYPE_CHECKING:
    from rlrun.engine.flow.trainee import Trainee


class AddTargetOutputs(Operator):
    """Adds the target network's outputs for each observation, `target_outputs` [T, B, K]."""

    def __init__(self, trainee: Trainee) -> None:
        self.trainee = trainee

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the batch with `target_outputs`."""
        rows, packing = target_rows(item)
        outputs = np.moveaxis(self.trainee.learner.target_outputs(rows), 1, 0)
        return SampleBatch(item, target_outputs=packing.unpack(outputs[: len(item["valid"])]))
