"""Positions of env slots (episode number, seed, steps so far), and episode seeds, hashed for many env slots at once.

`numpy.random.SeedSequence` hashes one key in 8 us; with an untrained agent in 64 env slots of CartPole, an episode ends
in every third step, so seeding would cost more than the simulation. This module computes the same hash (M. E. O'Neill's
seed_seq, as in numpy/random/bit_generator.pyx) for arrays of keys, in 0.6 us per key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray
from typing_extensions import override

Words = NDArray[np.uint32]

_MASK = 0xFFFFFFFF
_INIT_A, _MULT_A = 0x43B0D7E5, 0x931E8875
_INIT_B, _MULT_B = 0x8B51F9DD, 0x58F38DED
_MIX_LEFT, _MIX_RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_SHIFT = np.uint32(16)
_POOL = 4


@dataclass(slots=True)  # created once per fragment and env slot; a frozen instance would take four times as long
class EpisodePosition:
    """Position of an env slot: an episode and the number of actions taken in it.

    Attributes:
        episode: Index of the episode among the env slot's episodes, from 0.
        seed: The seed that the episode was reset with.
        length: Number of calls of `step` since the reset, including one that is running or failed. Messages thus count
            steps from 1, and step 0 is the reset.
        episode_return: Sum of the raw rewards since the reset, in a saved position; None if it is unknown.
    """

    episode: int
    seed: int
    length: int
    episode_return: float | None = None

    @override
    def __str__(self) -> str:
        return f"episode {self.episode} with seed {self.seed}, step {self.length}"


@dataclass(frozen=True)
class EpisodeSeeds:
    """Deterministic episode seeds: a hash of run seed, worker, stream, env slot and episode number.

    Attributes:
        run_seed: Root seed of the trial.
        worker_index: Index of the rollout worker that steps the env slots; 0 is the trial's own process.
        stream: Index of the episodes' purpose, such as 0 for training; each purpose has separate seeds.
        episodes_per_seed: Number of consecutive episodes that share a seed, such as a group of episodes that start in
            the same state. Above 1, episodes are numbered over all of the worker's env slots, in the order of their
            resets, and seeds do not depend on the env slot.
        first_slot: Number of the worker's env slots that precede the slots seeded here.

    Examples:
        >>> EpisodeSeeds(run_seed=7, worker_index=1).seed(env_index=0, episode=3)
        1076370014
    """

    run_seed: int
    worker_index: int
    stream: int = 0
    episodes_per_seed: int = 1
    first_slot: int = 0

    def seed(self, env_index: int, episode: int) -> int:
        """Returns the seed of an env slot's episode, below 2**31 because some simulators do not accept larger seeds."""
        env_index += self.first_slot
        if self.episodes_per_seed > 1:
            env_index, episode = 0, episode // self.episodes_per_seed
        key = (self.run_seed, self.worker_index, self.stream, env_index, episode)
        return int(np.random.SeedSequence(key).generate_state(1)[0]) >> 1

    def seeds(self, env_indices: NDArray[Any], episodes: NDArray[Any]) -> NDArray[np.int64]:
        """Returns the seeds of several episodes, given arrays of env slots and of episode numbers (broadcast)."""
        slots, numbers = np.broadcast_arrays(np.asarray(env_indices) + self.first_slot, episodes)
        if self.episodes_per_seed > 1:
            slots, numbers = np.zeros_like(slots), numbers // self.episodes_per_seed
        fixed = [word for part in (self.run_seed, self.worker_index, self.stream) for word in split_words(part)]
        varying = [slots.ravel().astype(np.uint32), numbers.ravel().astype(np.uint32)]
        words = hash_keys([np.full(slots.size, word, dtype=np.uint32) for word in fixed] + varying, 1)
        return (words[:, 0] >> np.uint32(1)).astype(np.int64).reshape(slots.shape)

    def position_after(
        self, env_index: int, began: Sequence[EpisodePosition], resets: NDArray[np.bool_]
    ) -> EpisodePosition:
        """Returns the position of an env slot after some steps.

        Args:
            env_index: Index of the env slot.
            began: Position of each env slot before the first step, [B].
            resets: Whether each step was a reset to the next episode, [steps, B].
        """
        own, first, steps = resets[:, env_index], began[env_index], len(resets)
        if not own.any():
            return EpisodePosition(first.episode, first.seed, first.length + steps)
        episode = first.episode + int(np.count_nonzero(own))
        if self.episodes_per_seed > 1:
            closed = np.concatenate([~resets, np.ones_like(resets[:1])])  # the last row is the position after all steps
            episode = int(shared_numbers(began, closed)[-1, env_index])
        return EpisodePosition(episode, self.seed(env_index, episode), steps - 1 - int(np.flatnonzero(own)[-1]))


def shared_numbers(began: Sequence[EpisodePosition], valid: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the episode number of each row, [T, B], counting episodes across all env slots.

    Args:
        began: Position of each env slot before the first row, [B].
        valid: Mask of the rows with a step, [T, B]; in a row without one, the env slot is reset.
    """
    found = np.zeros(valid.shape, np.int64)
    found[0] = first = [place.episode for place in began]
    rows, slots = (~valid[:-1]).nonzero()  # in order of resets; resets in the last row count in the next fragment
    found[rows + 1, slots] = max(first) + np.arange(1, len(rows) + 1)
    return np.maximum.accumulate(found)


class _Hash:
    """SeedSequence's hash function, whose multiplier is updated after each hashed word."""

    def __init__(self, constant: int, multiplier: int) -> None:
        self._constant = constant
        self._multiplier = multiplier

    def __call__(self, words: Words) -> Words:
        mixed: Words = words ^ np.uint32(self._constant)
        self._constant = self._constant * self._multiplier & _MASK
        mixed *= np.uint32(self._constant)
        return mixed ^ (mixed >> _SHIFT)


def _mix(x: Words, y: Words) -> Words:
    mixed: Words = _MIX_LEFT * x - _MIX_RIGHT * y
    return mixed ^ (mixed >> _SHIFT)


def _pool(entropy: Sequence[Words]) -> list[Words]:
    """Mixes the words of the keys into pools of four words, each an array [N]."""
    hashed = _Hash(_INIT_A, _MULT_A)
    zero = np.zeros_like(entropy[0])
    pool = [hashed(entropy[i] if i < len(entropy) else zero) for i in range(_POOL)]
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                pool[target] = _mix(pool[target], hashed(pool[source]))
    for word in entropy[_POOL:]:
        for target in range(_POOL):
            pool[target] = _mix(pool[target], hashed(word))
    return pool


def hash_keys(entropy: Sequence[Words], num_words: int) -> Words:
    """Returns the hash words of N keys; the vectorized form of ``SeedSequence(key).generate_state(num_words)``.

    Args:
        entropy: The 32-bit words of the keys: element i is an array [N] with the i-th word of every key.
        num_words: Number of 32-bit output words per key.

    Returns:
        Output words, [N, num_words].
    """
    pool = _pool(entropy)
    hashed = _Hash(_INIT_B, _MULT_B)
    return np.stack([hashed(pool[i % _POOL]) for i in range(num_words)], axis=-1)


def split_words(number: int) -> list[int]:
    """Splits a non-negative integer into 32-bit words, lowest first, as SeedSequence does."""
    words = [number & _MASK]
    while number := number >> 32:
        words.append(number & _MASK)
    return words


class _HashedSeed(ISeedSequence):
    """Seed sequence that passes precomputed hash words to a bit generator."""

    def __init__(self, words: Words) -> None:
        self._words = words

    @override
    def generate_state(self, n_words: int, dtype: object = np.uint32) -> NDArray[np.uint64]:
        """Returns the precomputed words in the form that PCG64 requests, always four 64-bit words."""
        return self._words.view(np.uint64)


def generator_of(words: Words) -> np.random.Generator:
    """Returns ``Generator(PCG64(SeedSequence(key)))`` for a key, given the key's eight hash words from `hash_keys`."""
    return np.random.Generator(np.random.PCG64(_HashedSeed(words)))  # type: ignore[arg-type]  # not in NumPy's stubs
