"""Steps of a random policy as numeric arrays, which show what an observation omits."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from numpy.typing import NDArray

from rlrun.engine.data.action_masks import ACTION_MASK
from rlrun.engine.envs.env_config import EnvConfig
from rlrun.engine.envs.env_findings import ACTION_SEED
from rlrun.engine.envs.episode_position import EpisodeSeeds
from rlrun.engine.envs.make import make_vector_env
from rlrun.engine.envs.random_actions import RandomActions
from rlrun.engine.envs.spaces import Spaces

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

SLOTS = 8
"""Number of env slots of a random rollout; half of them are used for fitting, the others for testing."""
MOST_CHOICES = 256
"""Number of choices above which a discrete space is encoded as one number instead of one-hot."""
MOST_NUMBERS = 256
"""Size above which an array, such as an image, is left out."""


@dataclass(frozen=True)
class RandomSteps:
    """N steps of a random policy, ordered by env slot, and by time within a slot.

    Attributes:
        observations: Observation before each step as numbers, [N, D].
        following: Observation after each step, [N, D].
        actions: Actions as numbers, [N, A].
        rewards: Rewards, [N].
        terminated: Whether the episode terminated in the step, [N].
        truncated: Whether the episode was truncated in the step, [N].
        times: Number of steps in the episode before the step, [N].
        slots: Index of the env slot, [N].
    """

    observations: Floats
    following: Floats
    actions: Floats
    rewards: Floats
    terminated: Flags
    truncated: Flags
    times: Numbers
    slots: Numbers

    @property
    def ends(self) -> Flags:
        """Whether the episode ended in the step, [N]."""
        return self.terminated | self.truncated

    @property
    def lengths(self) -> Numbers:
        """Length of each finished episode."""
        return self.times[self.ends] + 1


def random_steps_of(config: EnvConfig, steps: int, seed: int, most_s: float) -> RandomSteps:
    """Steps an env with random actions.

    Args:
        config: Config of the env.
        steps: Number of env steps in all slots.
        seed: Root seed of the episodes.
        most_s: Limit in seconds after which the rollout ends early.

    Raises:
        EnvError: The env's own code raised.
    """
    env = make_vector_env(config, SLOTS, EpisodeSeeds(seed, 0))
    spaces = Spaces(env.observation_space, env.action_space)
    random = RandomActions(spaces, ACTION_SEED)
    rows: list[tuple[Any, ...]] = []
    try:
        seen = env.reset()
        shown = numbers_of(spaces.observation, seen)
        times, acts = np.zeros(SLOTS, np.int64), np.ones(SLOTS, np.bool_)
        until = time.monotonic() + most_s
        for _ in range(max(steps // SLOTS, 2)):
            actions = random.draw(seen)
            taken = numbers_of(spaces.action, actions)
            seen, rewards, terminated, truncated, _ = env.step(actions)
            now = numbers_of(spaces.observation, seen)
            rows.append((shown, now, taken, rewards.copy(), terminated.copy(), truncated.copy(), times.copy(), acts))
            times, ended = times + acts, terminated | truncated
            times, acts, shown = np.where(acts, times, 0), ~ended, now
            if time.monotonic() > until:
                break
    finally:
        env.close()
    *columns, acted = (np.stack(column, axis=1) for column in zip(*rows, strict=True))  # [B, T, ...]
    slots = np.broadcast_to(np.arange(SLOTS)[:, None], acted.shape)
    return RandomSteps(*(column[acted] for column in (*columns, slots)))


def numbers_of(space: gymnasium.Space[Any], rows: Any) -> Floats:
    """Converts elements of a space to numbers, [B, D]: choices are one-hot; images and action masks are left out.

    Args:
        space: The space.
        rows: Arrays [B, ...].
    """
    if isinstance(space, Dict):
        parts = [numbers_of(own, rows[key]) for key, own in space.spaces.items() if key != ACTION_MASK]
        return np.concatenate(parts, axis=1)
    if isinstance(space, Tuple):
        return np.concatenate([numbers_of(own, part) for own, part in zip(space.spaces, rows, strict=True)], axis=1)
    flat = np.asarray(rows).reshape(len(rows), -1)
    if isinstance(space, Discrete):
        return _one_hot(flat[:, 0] - int(space.start), int(space.n))
    if isinstance(space, MultiDiscrete):
        counts, starts = space.nvec.ravel(), np.broadcast_to(space.start, space.nvec.shape).ravel()
        columns = [_one_hot(flat[:, i] - starts[i], int(count)) for i, count in enumerate(counts)]
        return np.concatenate(columns, axis=1)
    if isinstance(space, Box) and flat.shape[1] > MOST_NUMBERS:
        return np.zeros((len(flat), 0))
    return flat.astype(np.float64)


def _one_hot(choices: NDArray[Any], count: int) -> Floats:
    if count > MOST_CHOICES:
        return choices.astype(np.float64)[:, None] / count
    return np.asarray(np.eye(count)[choices.astype(np.int64)], np.float64)
