"""The exploration noise of whole fragments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlrun.functional.seeding import generator
from rlrun.policy.behavior import BehaviorPolicy

DRAWN_TOGETHER = 32
"""Steps, over all env slots, for which short fragments draw their noise together: a generator of its own for each would
take longer than the steps."""


class FragmentNoise:
    """Draws the noise of a policy's fragments, which depends on their number alone.

    Args:
        behavior: Whose noise.
        seed: Root seed of the trial.
        worker_index: Index of the worker.
        length: T, steps in a fragment.
        slots: B, env slots.
    """

    def __init__(self, behavior: BehaviorPolicy, seed: int, worker_index: int, length: int, slots: int) -> None:
        self._behavior = behavior
        self._seed = seed
        self._worker_index = worker_index
        self._length = length
        self._slots = slots
        self._fragments = max(DRAWN_TOGETHER // (length * slots), 1)
        self._drawn: tuple[int, NDArray[np.float32]] | None = None

    def __call__(self, fragment: int) -> NDArray[np.float32]:
        """Returns the noise [T, B, ...] of the fragment with this number."""
        block, place = divmod(fragment, self._fragments)
        if self._drawn is None or self._drawn[0] != block:
            draws = generator(self._seed, "noise", self._worker_index, block)
            self._drawn = block, self._behavior.noise(draws, self._fragments * self._length, self._slots)
        return self._drawn[1][place * self._length : (place + 1) * self._length]
