"""Hindsight experience replay (HER): replaces goals of transitions with goals that the episode achieved (NumPy)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.functional.saved_numbers import load_generator
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.replay.replay_config import HindsightConfig
from rlrun.engine.replay.ring import ReplayRing
from rlrun.engine.replay.stores import Indices
from rlrun.engine.replay.streams import Inserted

DESIRED, ACHIEVED = "desired_goal", "achieved_goal"

CHECKED_STEPS = 1000
"""Number of initial env steps whose rewards are compared with the results of the goal functions."""


class GoalFunctions(Protocol):
    """Interface of an env whose rewards and terminations can be computed for any goal."""

    def rewards(self, achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[np.float32]:
        """Returns the rewards [N] of N steps, given the goals that they achieved and the desired goals."""

    def terminateds(self, achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[np.bool_] | None:
        """Returns whether each of N steps ends its episode, [N], given its goals.

        The result is None if goals never end an episode.
        """


MakeGoals = Callable[[], GoalFunctions]
"""Picklable factory of goal functions, since rows are relabeled in the process that samples them."""


class Hindsight:
    """Replaces the goals of sampled transitions with goals achieved in the same episode, and recomputes rewards (HER).

    Relabeling happens when a minibatch is sampled: goals are redrawn each time, and nothing is stored twice. With
    n-step returns, all n rewards are recomputed; the return ends where the new goal terminates the episode.
    Terminations for reasons other than the original goal are kept.

    In a running episode, only goals achieved so far are candidates.

    Args:
        config: Settings of the relabeling.
        ring: The ring buffer that stores the transitions.
        make_goals: Function that creates the env's goal functions.
        seed: Seed of the random generator for relabeling.

    Source:
        Andrychowicz et al., "Hindsight experience replay", arXiv:1707.01495, algorithm 1 and section 4.5.
    """

    def __init__(self, config: HindsightConfig, ring: ReplayRing, make_goals: MakeGoals, seed: int) -> None:
        self.config = config
        self._ring = ring
        self._goals = make_goals()
        self._places = EpisodePlaces(ring)
        self._checked_steps = 0
        self._generator = np.random.Generator(np.random.Philox(seed))

    @property
    def num_bytes(self) -> int:
        """Bytes allocated for the table of each step's episode and index within it."""
        return self._places.num_bytes

    def check(self, fragment: SampleBatch) -> None:
        """Validates that the env's goal functions compute a fragment's recorded rewards.

        Checks only the first fragments.

        Raises:
            UsageError: Observations have no goals, or rewards are not a function of the goals.
        """
        if self._checked_steps >= CHECKED_STEPS:
            return
        obs = fragment["obs"]
        if not isinstance(obs, dict) or not {DESIRED, ACHIEVED} <= obs.keys():
            raise UsageError(
                f"replay.hindsight: observations must be a Dict with {DESIRED} and {ACHIEVED}, without "
                "history (model.views); leave out hindsight for other envs"
            )
        t, slot = fragment["valid"].nonzero()
        achieved, desired = obs[ACHIEVED][t + 1, slot], obs[DESIRED][t, slot]
        computed, given = self._goals.rewards(achieved, desired), fragment["rewards"][t, slot]
        if len(wrong := np.flatnonzero(~np.isclose(computed, given, rtol=1e-4, atol=1e-5))):
            raise UsageError(
                f"replay.hindsight: compute_reward returns {computed[wrong[0]]:g} for a step whose reward was "
                f"{given[wrong[0]]:g}. Rewards must depend only on achieved and desired goal: leave out "
                "everything that changes them afterwards, such as reward_scale, clip_rewards and wrappers"
            )
        self._checked_steps += len(t)

    def insert(self, inserted: Inserted) -> None:
        """Records which episode newly stored steps belong to, and their index within it."""
        self._places.insert(inserted)

    def relabel(self, indices: Indices, batch: SampleBatch) -> None:
        """Replaces the goals of a random share of sampled transitions, in place.

        Each transition uses two random numbers, so drawing several minibatches in one call gives the same result as
        separate calls.

        Args:
            indices: Indices of the transitions, [S].
            batch: The transitions, as `ReplayRing.gather` returned them, [S, 1, ...].
        """
        draws = self._generator.random((len(indices), 2))
        rows = np.flatnonzero(draws[:, 0] < self.config.share)
        chosen = indices[rows]
        goals = self._ring.observed(self._goal_indices(chosen, draws[rows, 1]), ACHIEVED)
        for name in ("obs", "next_obs"):
            batch[name][DESIRED][rows, 0] = goals
        batch["rewards"][rows, 0], batch["discounts"][rows, 0] = self._returns(chosen, goals)

    def _goal_indices(self, indices: Indices, draws: NDArray[np.float64]) -> Indices:
        """Returns the entries [N] whose achieved goals replace the goals of steps at indices [N], by uniform draws."""
        earlier, later = self._places.around(indices)
        first = {"future": np.ones_like(later), "final": later, "episode": 1 - earlier}[self.config.strategy]
        return self._ring.streams.later(indices, first + (draws * (later - first + 1)).astype(np.int64))

    def _returns(self, indices: Indices, goals: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Returns n-step returns and bootstrap discounts [N] of the steps at indices [N] for other goals [N, ...]."""
        ring, gamma = self._ring, np.float32(self._ring.gamma)
        total, discounts = np.zeros(len(indices), np.float32), np.ones(len(indices), np.float32)
        is_open = np.ones(len(indices), np.bool_)
        for j in range(ring.n_step):
            present = ring.streams.later(indices, j)
            following = ring.streams.later(indices, j + 1)
            achieved = ring.observed(following, ACHIEVED)
            flags = ring.read(present, ("terminateds", "truncateds"))
            terminated = self._terminated(flags["terminateds"], achieved, ring.observed(present, DESIRED), goals)
            total += np.where(is_open, discounts * self._goals.rewards(achieved, goals), 0)
            discounts[is_open] *= np.where(terminated, np.float32(0), gamma)[is_open]
            is_open &= ~(terminated | flags["terminateds"] | flags["truncateds"])
        return total, discounts

    def _terminated(
        self, stored: NDArray[np.bool_], achieved: NDArray[Any], former: NDArray[Any], goals: NDArray[Any]
    ) -> NDArray[np.bool_]:
        """Whether steps with replaced goals terminate their episode, [N], because of the goals or otherwise."""
        by_goal = self._goals.terminateds(achieved, goals)
        if by_goal is None:
            return stored
        by_former = self._goals.terminateds(achieved, former)
        return by_goal | (stored & ~by_former) if by_former is not None else by_goal

    def state(self) -> dict[str, Any]:
        """Returns the random state, and each step's episode and index within it, for a checkpoint."""
        return {"generator": dict(self._generator.bit_generator.state), "places": self._places.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the result of `state()`; the replay buffer must hold the same steps as when it was saved."""
        load_generator(self._generator, state["generator"])
        self._places.load_state(state["places"])


_COLUMNS = ("episode", "position", "lengths")


class EpisodePlaces:
    """Table of the steps in a replay buffer: each step's episode and index within it, and the episodes' lengths.

    Episodes of an env slot are numbered from 1. An episode takes at least one row, so the stored episodes have distinct
    numbers modulo the number of rows; the table of lengths is indexed by this remainder.

    Args:
        ring: The ring buffer that stores the steps.
    """

    def __init__(self, ring: ReplayRing) -> None:
        self._ring = ring
        self._columns: dict[str, NDArray[np.uint32]] = {}

    @property
    def num_bytes(self) -> int:
        """Bytes allocated for the table."""
        return sum(column.nbytes for column in self._columns.values())

    def insert(self, inserted: Inserted) -> None:
        """Records the episode of each newly stored step, and the step's index within the episode.

        An episode begins after a row without a step.
        """
        ring, worker, slots, rows = self._ring, inserted.worker, inserted.slots, inserted.rows[:-1]
        self._allocate()
        episode, position, lengths = (self._columns[name][worker] for name in _COLUMNS)
        numbers = np.arange(ring.num_slots)[slots]
        before = (rows[0] - 1) % ring.rows
        places = ring.streams.numbered(worker, np.append(before, rows)[:, None], numbers)
        valid = ring.read(places, ("valid",))["valid"]
        starts = valid[1:] & ~valid[:-1]
        steps = np.arange(len(rows))[:, None]
        length_before = np.where(valid[0], position[before, slots].astype(np.int64) + 1, 0)
        own = episode[before, slots] + np.cumsum(starts, 0)
        since = steps - np.maximum.accumulate(np.where(starts, steps, -length_before), 0)
        episode[rows, slots], position[rows, slots] = own, since
        t, slot = valid[1:].nonzero()  # in step order, so that an episode's latest length overwrites the shorter ones
        lengths[own[t, slot] % ring.rows, numbers[slot]] = since[t, slot] + 1

    def around(self, indices: Indices) -> tuple[Indices, Indices]:
        """Returns, for each of N steps, how many stored steps of its episode precede it, and how many rows follow it.

        Each step has at least one row after it, since the row after an episode's last step holds its final observation.

        Args:
            indices: Flat indices of the steps, [N].

        Returns:
            Numbers of steps before, [N], and of rows after, [N].
        """
        ring = self._ring
        episode, position, lengths = (self._columns[name].reshape(-1) for name in _COLUMNS)
        streams = ring.streams
        first_row = indices // (ring.rows * ring.num_slots) * ring.rows
        ends = (first_row + episode[indices] % ring.rows) * ring.num_slots + indices % ring.num_slots
        own = position[indices].astype(np.int64)
        return np.minimum(own, streams.rows_before(indices)), lengths[ends].astype(np.int64) - own

    def _allocate(self) -> None:
        if not self._columns:
            shape = (self._ring.num_workers, self._ring.rows, self._ring.num_slots)
            self._columns = {name: np.zeros(shape, np.uint32) for name in _COLUMNS}

    def state(self) -> dict[str, Any]:
        """Returns copies of the table's used rows, for a checkpoint."""
        if not self._columns:
            return {}
        rows = self._ring.streams.num_used_rows
        return {name: column[:, :rows].copy() for name, column in self._columns.items()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restores the table from `state()`; the ring must be restored first."""
        if not state:
            return
        self._allocate()
        for name, saved in state.items():
            self._columns[name][:, : saved.shape[1]] = saved
