"""Replay of recent fragments in IMPALA."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.functional.saved_numbers import load_generator


class ReplayRecent(StatefulOperator):
    """Emits each new fragment, followed by fragments sampled from the most recent, at a fixed replay ratio.

    Source:
        The mixed batches of IMPALA with replay (Espeholt et al., arXiv:1802.01561, section 5.2.2 and appendix E).

    Args:
        proportion: Replay ratio: replayed fragments per new fragment, on average.
        slots: Number of recent fragments kept for replay.
        seed: Seed of the sampling.
    """

    def __init__(self, proportion: float, slots: int, seed: int) -> None:
        self.proportion = proportion
        self.slots = slots
        self._generator = np.random.Generator(np.random.Philox(seed))
        self._recent: list[SampleBatch] = []
        self._owed = 0.0

    @override
    def settings(self) -> dict[str, Any]:
        return {"proportion": self.proportion, "slots": self.slots}

    @override
    def __call__(self, item: SampleBatch) -> Iterable[SampleBatch]:
        self._recent = [*self._recent, item][-self.slots :]
        self._owed += self.proportion
        repeated = []
        while self._owed >= 1:
            repeated.append(self._recent[self._generator.integers(len(self._recent))])
            self._owed -= 1
        return [item, *repeated]

    @override
    def state(self) -> dict[str, Any]:
        return {
            "recent": [dict(batch) for batch in self._recent],
            "owed": self._owed,
            "generator": dict(self._generator.bit_generator.state),
        }

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._recent = [SampleBatch(batch) for batch in state["recent"]]
        self._owed = float(state["owed"])
        load_generator(self._generator, state["generator"])
