"""Which episode each env slot is in, its seed, and the seeds of the episodes to come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlrun.envs.episode_place import EpisodePlace, EpisodeSeeds
from rlrun.envs.seed_hash import generator_of, hash_keys

_BLOCK = 1024
"""Seeds hashed at a time: 0.6 ms, whatever the number of env slots."""


class EpisodeLedger:
    """Counts the episodes of B env slots and knows their seeds.

    Args:
        seeds: Where the seeds come from.
        num_envs: Number of env slots, B.
        first_episodes: Number of each env slot's first episode; 0 for all unless given.

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
        """Puts every env slot into its first episode and returns their seeds."""
        self._episodes = [first - 1 for first in self._first]
        self._hash_ahead()
        return [self.begin_next(slot) for slot in range(self.num_envs)]

    def begin_next(self, slot: int) -> int:
        """Moves an env slot to its next episode and returns that episode's seed."""
        row = self._used[slot]
        if row == self._depth:
            self._hash_ahead()
            row = 0
        self._used[slot] = row + 1
        self._episodes[slot] += 1
        seed = self._ahead[row][slot]
        self._current[slot] = seed
        return seed

    def chosen(self, slot: int, seed: int) -> EpisodePlace:
        """Returns where an env slot is that begins an episode with a chosen seed: it is the slot's next."""
        return EpisodePlace(self._episodes[slot] + 1, seed, 0)

    def return_to(self, slot: int, place: EpisodePlace) -> None:
        """Puts an env slot into the episode of a place, with that place's seed."""
        self._episodes[slot] = place.episode
        self._current[slot] = place.seed
        self._used[slot] = self._depth  # what was hashed ahead belongs to other episodes

    def generator(self, slot: int) -> np.random.Generator:
        """Returns the generator that ``gymnasium.utils.seeding.np_random`` makes of the env slot's seed."""
        row = self._used[slot] - 1
        if self._ahead[row][slot] == self._current[slot]:
            return generator_of(self._words[row, slot])
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(self._current[slot])))

    def place(self, slot: int, length: int) -> EpisodePlace:
        """Returns where an env slot is that has taken `length` actions in its episode."""
        return EpisodePlace(self._episodes[slot], self._current[slot], length)

    def _hash_ahead(self) -> None:
        """Hashes the seeds of the next episodes of every env slot, and the words PCG64 is seeded with."""
        slots = np.arange(self.num_envs, dtype=np.uint32)
        rows = np.arange(1, self._depth + 1)[:, None]
        seeds = self._seeds.seeds(slots, np.asarray(self._episodes) + rows)
        words = hash_keys([seeds.ravel().astype(np.uint32)], 8)
        self._ahead: list[list[int]] = seeds.tolist()
        self._words = words.reshape(self._depth, self.num_envs, 8)
        self._used = [0] * self.num_envs
