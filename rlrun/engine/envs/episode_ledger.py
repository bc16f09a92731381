"""Bookkeeping of each env slot's episode number and seed; seeds of future episodes are hashed in advance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from rlrun.engine.envs.episode_position import EpisodePosition, EpisodeSeeds, generator_of, hash_keys

_BLOCK = 1024
"""Number of seeds hashed per call (0.6 ms), regardless of the number of env slots."""


class EpisodeLedger:
    """Episode counters and seeds of B env slots.

    Args:
        seeds: Episode seeds, a function of env slot and episode number.
        num_envs: Number of env slots, B.
        first_episodes: Episode number at which each env slot begins; 0 for all unless given.

    Attributes:
        num_envs: Number of env slots, B.
    """

    def __init__(self, seeds: EpisodeSeeds, num_envs: int, first_episodes: Sequence[int] | None = None) -> None:
        self.num_envs = num_envs
        self._seeds = seeds
        self._first = [0] * num_envs if first_episodes is None else [int(episode) for episode in first_episodes]
        self._depth = max(1, _BLOCK // num_envs)
        self._current = [0] * num_envs
        self.start_over()

    def start_over(self) -> list[int]:
        """Resets the episode counter of every env slot to its first episode; returns the seeds of these episodes."""
        self._episodes = [first - 1 for first in self._first]
        if self._seeds.episodes_per_seed > 1:
            self._episodes = [max(self._first) * self.num_envs - 1] * self.num_envs
        self._hash_ahead()
        return [self.begin_next(slot) for slot in range(self.num_envs)]

    def begin_next(self, slot: int) -> int:
        """Advances the episode counter of an env slot; returns the seed of the new episode."""
        if self._seeds.episodes_per_seed > 1:
            # The last episode number handed out always belongs to a running episode, so it is the maximum.
            episode = self._episodes[slot] = max(self._episodes) + 1
            seed = self._current[slot] = self._seeds.seed(slot, episode)
            return seed
        row = self._used[slot]
        if row == self._depth:
            self._hash_ahead()
            row = 0
        self._used[slot] = row + 1
        self._episodes[slot] += 1
        seed = self._ahead[row][slot]
        self._current[slot] = seed
        return seed

    def chosen(self, slot: int, seed: int) -> EpisodePosition:
        """Returns the start of an env slot's next episode as a position with a seed chosen by the caller.

        The counter is not advanced: the episode has not begun yet.
        """
        return EpisodePosition(self._episodes[slot] + 1, seed, 0)

    def return_to(self, slot: int, place: EpisodePosition) -> None:
        """Resets an env slot's episode number and seed to the values of a saved position."""
        self._episodes[slot] = place.episode
        self._current[slot] = place.seed
        self._used[slot] = self._depth  # discards the seeds hashed in advance, which belong to other episodes

    def generator(self, slot: int) -> np.random.Generator:
        """Returns the generator that ``gymnasium.utils.seeding.np_random`` creates for the env slot's current seed."""
        row = self._used[slot] - 1
        if self._ahead[row][slot] == self._current[slot]:
            return generator_of(self._words[row, slot])
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(self._current[slot])))

    def place(self, slot: int, length: int) -> EpisodePosition:
        """Returns an env slot's position (episode, seed, step) after `length` actions in its current episode."""
        return EpisodePosition(self._episodes[slot], self._current[slot], length)

    def places(self, lengths: Iterable[int]) -> list[EpisodePosition]:
        """Returns each env slot's position (episode, seed, step), given its number of actions in the episode."""
        return list(map(EpisodePosition, self._episodes, self._current, lengths))

    def _hash_ahead(self) -> None:
        """Precomputes the seeds of every env slot's next episodes, and the SeedSequence words that seed PCG64."""
        slots = np.arange(self.num_envs, dtype=np.uint32)
        rows = np.arange(1, self._depth + 1)[:, None]
        seeds = self._seeds.seeds(slots, np.asarray(self._episodes) + rows)
        words = hash_keys([seeds.ravel().astype(np.uint32)], 8)
        self._ahead: list[list[int]] = seeds.tolist()
        self._words = words.reshape(self._depth, self.num_envs, 8)
        self._used = [0] * self.num_envs
