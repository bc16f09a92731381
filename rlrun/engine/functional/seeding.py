"""Seeds derived from a trial's root seed, one for each purpose."""

from __future__ import annotations

import zlib

import numpy as np


def child_seed(run_seed: int, purpose: str, *indices: int) -> int:
    """Derives a 63-bit seed for one purpose from a trial's root seed.

    Args:
        run_seed: Root seed of the trial.
        purpose: Name of the purpose, such as `noise`.
        indices: Numbers that the seed also depends on, such as the indices of worker and fragment.
    """
    sequence = np.random.SeedSequence((run_seed, zlib.crc32(purpose.encode()), *indices))
    return int(sequence.generate_state(1, np.uint64)[0]) >> 1


def generator(run_seed: int, purpose: str, *indices: int) -> np.random.Generator:
    """Creates a random generator for one purpose, seeded from a trial's root seed."""
    return np.random.Generator(np.random.Philox(child_seed(run_seed, purpose, *indices)))
