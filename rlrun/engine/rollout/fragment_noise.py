"""Exploration noise of rollout fragments, sampled as arrays [T, B, ...]."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.functional.seeding import generator
from rlrun.engine.policy.exploration.exploration import NoiseSource

Floats = NDArray[np.float32]

DRAWN_TOGETHER = 32
"""Number of steps, over all env slots, whose noise short fragments sample in one block: a generator per fragment would
take longer than the steps."""


class FragmentNoise:
    """Exploration noise of a policy's fragments, determined by seed and fragment number.

    State-dependent noise (gSDE) may be constant over several steps, also across fragments. A resumed run then samples
    the noise of the earlier fragment again.

    Args:
        source: Exploration that samples the noise.
        seed: Root seed of the trial.
        worker_index: Index of the worker.
        length: T, steps in a fragment.
        slots: B, env slots.
        policy: Name of the policy if there are several, so that equal policies draw different noise; else "".
    """

    def __init__(
        self, source: NoiseSource, seed: int, worker_index: int, length: int, slots: int, policy: str = ""
    ) -> None:
        self._source = source
        self._purpose = f"noise of {policy}" if policy else "noise"
        self._seed = seed
        self._worker_index = worker_index
        self._length = length
        self._slots = slots
        self._block_length = length * max(DRAWN_TOGETHER // (length * slots), 1)
        self._drawn: tuple[int, Floats] | None = None
        self._held: tuple[int, Floats] | None = None
        self._every = source.network_noise_every

    def __call__(self, fragment: int) -> Floats:
        """Returns the noise [T, B, ...] of a fragment, given its number."""
        block, first = divmod(fragment * self._length, self._block_length)
        if self._drawn is None or self._drawn[0] != block:
            noise = self._draw(block)
            if self._every is not None and self._block_length % self._every:
                self._hold(block, noise, self._every)
            self._drawn = block, noise
        return self._drawn[1][first : first + self._length]

    def _draw(self, block: int) -> Floats:
        """Samples the noise of a block of consecutive fragments, with gSDE noise held over `every` steps."""
        draws = generator(self._seed, self._purpose, self._worker_index, block)
        return self._source.noise(draws, self._block_length, self._slots)

    def _hold(self, block: int, noise: Floats, every: int) -> None:
        """Repeats gSDE noise in place, so that it changes only at multiples of `every` steps over all fragments.

        Samples are numbered from the first fragment on: the i-th sample starting in a block is the block's i-th draw.
        """
        own = noise[..., : self._source.network_noise]
        first = block * self._block_length
        begins = -(-first // every)
        numbers = np.arange(first, first + self._block_length) // every
        moved = own[np.maximum(numbers - begins, 0) * every]
        if numbers[0] < begins:
            moved[numbers < begins] = self._noise_in_effect(int(numbers[0]), every)
        own[:] = moved
        self._held = int(numbers[-1]), moved[-1]

    def _noise_in_effect(self, number: int, every: int) -> Floats:
        """Returns the gSDE noise [B, ...] still in effect from an earlier block of fragments."""
        if self._held is None or self._held[0] != number:
            block = number * every // self._block_length
            place = number - -(-block * self._block_length // every)
            return self._draw(block)[place * every, :, : self._source.network_noise]
        return self._held[1]
