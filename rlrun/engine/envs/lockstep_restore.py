"""Restore of running episodes by seeded resets and action replay, for vector envs that step all slots in lockstep."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.envs.episode_position import EpisodePosition
from rlrun.engine.envs.spaces import empty_batch
from rlrun.engine.envs.vector_env import Infos, Tree, observation_hash

_STEPS_BETWEEN_LOOKS_AT_THE_CLOCK = 64


class LockstepEnv(Protocol):
    """Protocol of a vector env that steps all slots in lockstep and can reset slots to given episodes."""

    num_envs: int
    action_space: Any

    def step(self, actions: Tree) -> tuple[Tree, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """Steps all env slots; see `VectorEnv.step`."""
        ...

    def start_at(self, places: dict[int, EpisodePosition]) -> Tree:
        """Resets some env slots, each to the start of a saved episode; returns the observations of all env slots.

        Args:
            places: Saved position (episode, seed, step) by index of the env slot to reset; the step is ignored.
        """
        ...

    def start_after(self, places: dict[int, EpisodePosition]) -> Tree:
        """Resets some env slots, each to the episode after a saved one; returns the observations of all env slots.

        Args:
            places: Saved position (episode, seed, step) by index of the env slot to reset.
        """
        ...


def restore_in_lockstep(
    env: LockstepEnv,
    places: Sequence[EpisodePosition],
    actions: Sequence[Tree],
    hashes: Sequence[str],
    max_replay_s: float,
) -> tuple[Tree, list[bool]]:
    """Implements `VectorEnv.restore` by action replay, for an env that steps all env slots in lockstep.

    Replays start at different steps, so that all env slots reach their positions at the same step. Until its replay
    starts, an env slot is stepped with zero actions; it is then reset to its episode.
    """
    deadline = time.monotonic() + max_replay_s
    longest = max(place.length for place in places)
    padded = _padded(env, actions, places, longest)
    exact = [True] * env.num_envs
    observations: Tree = None
    for step in range(longest + 1):
        left = longest - step
        starting = {slot: place for slot, place in enumerate(places) if place.length == left}
        if starting:
            observations = env.start_at(starting)
        if left == 0:
            break
        if step % _STEPS_BETWEEN_LOOKS_AT_THE_CLOCK == 0 and time.monotonic() > deadline:
            exact = [place.length == 0 for place in places]
            observations = env.start_at({slot: place for slot, place in enumerate(places) if exact[slot]})
            break
        observations, _, terminateds, truncateds, _ = env.step(map_tree(lambda leaf, step=step: leaf[step], padded))
        if left > 1:
            for slot in np.flatnonzero(terminateds | truncateds).tolist():
                exact[slot] &= places[slot].length < left  # a replaying episode must not end early
    for slot in (slot for slot in range(env.num_envs) if exact[slot]):
        row = map_tree(lambda leaf, slot=slot: leaf[slot], observations)
        exact[slot] = observation_hash(row) == hashes[slot]
    if not all(exact):
        observations = env.start_after({slot: place for slot, place in enumerate(places) if not exact[slot]})
    return observations, exact


def _padded(env: LockstepEnv, actions: Sequence[Tree], places: Sequence[EpisodePosition], longest: int) -> Tree:
    """Left-pads the env slots' actions with zeros to a common length; returns arrays [longest, B, ...]."""
    padded = map_tree(
        lambda leaf: np.zeros((longest, *leaf.shape), leaf.dtype), empty_batch(env.action_space, env.num_envs)
    )
    for slot, place in enumerate(places):
        for target, taken in zip(leaves(padded), leaves(actions[slot]), strict=True):
            if place.length:
                target[longest - place.length :, slot] = np.asarray(taken)[: place.length]
    return padded
