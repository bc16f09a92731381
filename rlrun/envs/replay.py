"""Returns the columns of a vector env that can only be stepped all together to where they were."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.data.tree import leaves, map_tree
from rlrun.envs.spaces import empty_batch
from rlrun.envs.vector_env import EpisodePlace, Infos, Tree, observation_hash

_STEPS_BETWEEN_LOOKS_AT_THE_CLOCK = 64


class StepsTogether(Protocol):
    """What `replay_together` needs of a vector env."""

    num_envs: int
    action_space: Any

    def step(self, actions: Tree) -> tuple[Tree, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """As in `VectorEnv`."""
        ...

    def start_at(self, places: dict[int, EpisodePlace]) -> Tree:
        """Puts columns at the first observation of their places' episodes, at once; returns all observations."""
        ...

    def start_after(self, places: dict[int, EpisodePlace]) -> Tree:
        """Puts columns at the first observation of the episodes after these, at once; returns all observations."""
        ...


def replay_together(
    env: StepsTogether,
    places: Sequence[EpisodePlace],
    actions: Sequence[Tree],
    hashes: Sequence[str],
    max_replay_s: float,
) -> tuple[Tree, list[bool]]:
    """Does what `VectorEnv.restore` says with an env whose columns are all stepped at the same time.

    The columns set out one after the other, so that all of them arrive at the same step; a column that has not set out
    yet is stepped with zeros and then put at its start, whatever became of it.
    """
    deadline = time.monotonic() + max_replay_s
    longest = max(place.length for place in places)
    padded = _padded(env, actions, places, longest)
    exact = [True] * env.num_envs
    observations: Tree = None
    for step in range(longest + 1):
        left = longest - step
        starting = {column: place for column, place in enumerate(places) if place.length == left}
        if starting:
            observations = env.start_at(starting)
        if left == 0:
            break
        if step % _STEPS_BETWEEN_LOOKS_AT_THE_CLOCK == 0 and time.monotonic() > deadline:
            exact = [place.length == 0 for place in places]
            observations = env.start_at({column: place for column, place in enumerate(places) if exact[column]})
            break
        observations, _, terminateds, truncateds, _ = env.step(map_tree(lambda leaf, step=step: leaf[step], padded))
        if left > 1:
            for column in np.flatnonzero(terminateds | truncateds).tolist():
                exact[column] &= places[column].length < left  # one on its way must not end before it arrives
    for column in (column for column in range(env.num_envs) if exact[column]):
        row = map_tree(lambda leaf, column=column: leaf[column], observations)
        exact[column] = observation_hash(row) == hashes[column]
    if not all(exact):
        observations = env.start_after({column: place for column, place in enumerate(places) if not exact[column]})
    return observations, exact


def _padded(env: StepsTogether, actions: Sequence[Tree], places: Sequence[EpisodePlace], longest: int) -> Tree:
    """Returns actions [longest, B, ...]: each column's own at the end, zeros before."""
    padded = map_tree(
        lambda leaf: np.zeros((longest, *leaf.shape), leaf.dtype), empty_batch(env.action_space, env.num_envs)
    )
    for column, place in enumerate(places):
        for target, taken in zip(leaves(padded), leaves(actions[column]), strict=True):
            if place.length:
                target[longest - place.length :, column] = np.asarray(taken)[: place.length]
    return padded
