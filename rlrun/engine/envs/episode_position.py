"""Position of an env slot (episode number, seed, length), and the seed function of episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.envs.seed_hash import hash_keys, split_words


@dataclass(slots=True)  # not frozen: a frozen one takes four times as long to make, once a fragment for each env slot
class EpisodePosition:
    """Position of an env slot: an episode and the number of actions taken in it.

    Attributes:
        episode: Number of the env slot's episode, from 0.
        seed: The seed that the episode was reset with.
        length: Number of actions taken since the reset; 0 at the first observation.
    """

    episode: int
    seed: int
    length: int

    @override
    def __str__(self) -> str:
        return f"episode {self.episode} with seed {self.seed}, step {self.length}"


@dataclass(frozen=True)
class EpisodeSeeds:
    """Deterministic episode seeds: a hash of run seed, worker, stream, env slot and episode number.

    Attributes:
        run_seed: Root seed of the trial.
        worker_index: Index of the rollout worker that steps the env slots; 0 is the trial's own process.
        stream: Index of the purpose, such as training (0) or evaluation, for separate seeds.

    Examples:
        >>> EpisodeSeeds(run_seed=7, worker_index=1).seed(env_index=0, episode=3)
        1076370014
    """

    run_seed: int
    worker_index: int
    stream: int = 0

    def seed(self, env_index: int, episode: int) -> int:
        """Returns the seed of an env slot's episode, below 2**31 since some simulators accept no larger seeds."""
        key = (self.run_seed, self.worker_index, self.stream, env_index, episode)
        return int(np.random.SeedSequence(key).generate_state(1)[0]) >> 1

    def seeds(self, env_indices: NDArray[Any], episodes: NDArray[Any]) -> NDArray[np.int64]:
        """Vectorized version of `seed` for many episodes; the arguments are broadcast."""
        slots, numbers = np.broadcast_arrays(env_indices, episodes)
        fixed = [word for part in (self.run_seed, self.worker_index, self.stream) for word in split_words(part)]
        varying = [slots.ravel().astype(np.uint32), numbers.ravel().astype(np.uint32)]
        words = hash_keys([np.full(slots.size, word, dtype=np.uint32) for word in fixed] + varying, 1)
        return (words[:, 0] >> np.uint32(1)).astype(np.int64).reshape(slots.shape)

    def position_after(self, env_index: int, began: EpisodePosition, resets: NDArray[np.bool_]) -> EpisodePosition:
        """Returns the position of an env slot after t steps.

        Args:
            env_index: The env slot.
            began: Position before the first step.
            resets: Mask of the steps that were resets to the next episode, [t].
        """
        steps, episode = len(resets), began.episode + int(np.count_nonzero(resets))
        if episode == began.episode:
            return EpisodePosition(episode, began.seed, began.length + steps)
        return EpisodePosition(episode, self.seed(env_index, episode), steps - 1 - int(np.flatnonzero(resets)[-1]))
