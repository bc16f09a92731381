"""Data sets read as transitions or sequences, in the form of a replay buffer's minibatches (NumPy)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.datasets.data_set import DataSet, Indices
from rlrun.engine.functional.returns import discounted_returns
from rlrun.engine.functional.reward_scale import UNSCALED, RewardScale


class DataView(Protocol):
    """Interface that reads a data set as numbered items for minibatches, either transitions or sequences of steps."""

    def __len__(self) -> int:
        """Number of items, each of which is drawn with equal probability."""

    def gather(self, items: Indices) -> SampleBatch:
        """Returns the items with the given numbers as columns [S, L, ...], with L steps each; nothing is normalized."""


class Steps:
    """Data set read as single steps without next observations: `obs`, `actions` and `valid`, [S, 1] for S steps.

    Args:
        data: The data set.
    """

    def __init__(self, data: DataSet) -> None:
        self.data = data

    def __len__(self) -> int:
        return self.data.num_steps

    def gather(self, items: Indices) -> SampleBatch:
        """Reads S steps, given their numbers [S], which count from 0 over all episodes."""
        rows = self.data.rows(self.data.rows_of_steps(items), ("obs", "actions", "valid"))
        return rows.map(lambda leaf: leaf[:, None])


class Transitions:
    """Data set read as n-step transitions, with the columns of a replay buffer's minibatch, [S, 1] for S transitions.

    `rewards` is the discounted sum over n steps, or fewer where the episode ends earlier. `next_obs` is the observation
    after these steps, and `discounts` the factor of its bootstrap value, 0 after a terminated episode. Truncated and
    incomplete episodes bootstrap from their final observation. `weights` are 1, and `indices` are row numbers.

    Args:
        data: The data set.
        gamma: Discount factor.
        n_step: Maximum length n of a transition; None for the rest of the episode, whose sum of rewards is the return.
        scale: Scale and clipping bound of each reward.
        further: Names of additional columns to read: `next_actions` (the actions taken at `next_obs`) with `next_valid`
            (false where the episode ends without such an action), and `returns` (the discounted sum of rewards to the
            episode's end, without a bootstrap). Algorithms use these returns as lower bounds of values. This is wrong
            if episodes with negative rewards end without termination; a warning then names the data set.
    """

    def __init__(
        self,
        data: DataSet,
        *,
        gamma: float,
        n_step: int | None = 1,
        scale: RewardScale = UNSCALED,
        further: Sequence[str] = (),
    ) -> None:
        self.data = data
        self.further = further
        self.gamma = gamma
        self.n_step = n_step
        self.scale = scale

    def __len__(self) -> int:
        return self.data.num_steps

    def gather(self, items: Indices) -> SampleBatch:
        """Reads S transitions, given the numbers of their first steps [S], which count from 0 over all episodes."""
        data, rows = self.data, self.data.rows_of_steps(items)
        own = data.rows(rows, ("obs", "actions", "valid", "rewards", "terminateds"))
        last, rewards = own.pop("terminateds"), self.scale(own.pop("rewards"))
        following = rows + 1
        if self.n_step != 1:
            following = self._following(items, rows)
            last = data.rows(following - 1, ("terminateds",))["terminateds"]
            rewards = self._rewards(rows, following)
        batch = SampleBatch(
            own,
            rewards=rewards.astype(np.float32),
            discounts=(~last * self.gamma ** (following - rows)).astype(np.float32),
            next_obs=data.rows(following, ("obs",))["obs"],
            weights=np.ones(len(rows), np.float32),
        )
        if "returns" in self.further:
            batch["returns"] = self._lower_bounds[rows].astype(np.float32)
        if "next_actions" in self.further:
            after = data.rows(following, ("actions", "valid"))
            batch = SampleBatch(batch, next_actions=after["actions"], next_valid=after["valid"])
        return SampleBatch(batch.map(lambda leaf: leaf[:, None]), indices=rows)

    @cached_property
    def _returns(self) -> NDArray[np.float64]:
        return returns_to_go(self.data, self.gamma, self.scale)

    @cached_property
    def _lower_bounds(self) -> NDArray[np.float64]:
        data, returns = self.data, self._returns
        starts, lengths = data.episodes
        goes_on = ~data.rows(starts + lengths - 1, ("terminateds",))["terminateds"]
        if goes_on.any() and returns[starts[goes_on]].mean() < 0:
            warnings.warn(
                f"{data.folder}: episodes with negative returns do not terminate, so their recorded returns "
                "overestimate the true returns and cannot calibrate values; set config.calibrated: false for "
                "this data set",
                stacklevel=2,
            )
        return returns

    def _following(self, items: Indices, rows: Indices) -> Indices:
        ends = self.data.ends_of_steps(items)
        return ends if self.n_step is None else np.minimum(rows + self.n_step, ends)

    def _rewards(self, rows: Indices, following: Indices) -> NDArray[np.float64]:
        """Returns the discounted sums of the rewards from `rows` up to, but excluding, `following`, [S]."""
        if self.n_step is None:
            return self._returns[rows]
        reached = rows[:, None] + np.arange(self.n_step)
        rewards = rewards_at(self.data, np.minimum(reached, following[:, None] - 1).ravel(), self.scale)
        rewards = rewards.reshape(reached.shape) * (reached < following[:, None])
        sums: NDArray[np.float64] = rewards @ self.gamma ** np.arange(self.n_step)
        return sums


class LocatedSteps(NamedTuple):
    """Positions of the steps of S sequences of length L in a data set, as arrays [S, L].

    Attributes:
        rows: Row numbers in the data set; where a sequence extends beyond its episode, an arbitrary row of the episode.
        steps: Index of each step within its episode, from 0.
        is_step: Whether the step is within the episode.
    """

    rows: Indices
    steps: Indices
    is_step: NDArray[np.bool_]


class Sequences:
    """Data set read as sequences of steps of one episode, preceded by burn-in steps: [S, burn_in + length].

    A sequence begins at every `stride`-th step of an episode, the first one at the episode's start. Rows outside the
    episode are zero. `valid` marks the steps to learn from, which exclude burn-in. `episode_starts` marks each
    episode's first step, at which a recurrent state is reset; a sequence that begins later starts from a zero state.
    Further columns are `obs`, `actions`, `rewards`, `terminateds`, `truncateds`, and `episode_steps`, the index of each
    step in its episode.

    Args:
        data: The data set.
        length: Number of steps to learn from in a sequence, L.
        stride: Distance in steps between the starts of successive sequences; None for `length`.
        burn_in: Number of steps that precede the steps to learn from.
    """

    COLUMNS = ("obs", "actions", "rewards", "terminateds", "truncateds")

    def __init__(self, data: DataSet, *, length: int, stride: int | None = None, burn_in: int = 0) -> None:
        self.data = data
        self.length = length
        self.stride = stride or length
        self.burn_in = burn_in
        numbers = -(-data.episodes.lengths // self.stride)
        self._ends = np.cumsum(numbers)
        self._begins = self._ends - numbers

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def located(self, items: Indices) -> LocatedSteps:
        """Returns the positions of the steps of S sequences in the data set, given the sequences' numbers [S]."""
        episodes = self._ends.searchsorted(items, side="right")
        firsts = (items - self._begins[episodes]) * self.stride
        steps = firsts[:, None] + np.arange(-self.burn_in, self.length)
        lengths = self.data.episodes.lengths[episodes][:, None]
        is_step = (steps >= 0) & (steps < lengths)
        rows = self.data.episodes.starts[episodes][:, None] + steps.clip(0, lengths - 1)
        return LocatedSteps(rows, steps, is_step)

    def read(self, rows: Indices, names: Sequence[str]) -> SampleBatch:
        """Reads named columns of the rows with the given numbers [S, L], as a batch [S, L, ...]."""
        flat = self.data.rows(rows.ravel(), names)
        return flat.map(lambda leaf: leaf.reshape(*rows.shape, *leaf.shape[1:]))

    def gather(self, items: Indices) -> SampleBatch:
        """Reads S sequences, given their numbers [S], which count from 0 over all episodes."""
        rows, steps, is_step = self.located(items)
        batch = SampleBatch(
            self.read(rows, self.COLUMNS), episode_steps=steps, episode_starts=steps == 0, valid=is_step
        )
        batch["rewards"] = batch["rewards"].astype(np.float32)
        batch = batch.zero_invalid()
        batch["valid"] = is_step & (np.arange(steps.shape[1]) >= self.burn_in)
        return batch


def rewards_at(data: DataSet, rows: Indices, scale: RewardScale) -> NDArray[np.float64]:
    """Returns the rewards in given rows of a data set, scaled and clipped."""
    rewards: NDArray[np.float64] = scale(data.rows(rows, ("rewards",))["rewards"])
    return rewards


def returns_to_go(data: DataSet, gamma: float, scale: RewardScale = UNSCALED) -> NDArray[np.float64]:
    """Returns the discounted sum of rewards from each of N rows to its episode's end, [N]; 0 in rows without a step.

    Args:
        data: The data set.
        gamma: Discount factor.
        scale: Scale and clipping bound of each reward.
    """
    rewards = rewards_at(data, np.arange(data.num_rows), scale)
    return discounted_returns(rewards, *data.episodes, gamma)
