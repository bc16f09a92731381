"""Groups of complete episodes with the same start, and advantages that compare the returns within a group."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.algorithms.pg.complete_episodes import require_end
from rlrun.engine.data.restored_rows import RestoredRows
from rlrun.engine.data.sample_batch import EPISODE, SampleBatch, concatenated_rows
from rlrun.engine.data.tree import leaves
from rlrun.engine.data.views import viewed
from rlrun.engine.flow.flow import StatefulOperator
from rlrun.engine.messages.errors import UsageError
from rlrun.engine.settings.metric import Metric

EPSILON = 1e-6
"""Number added to the standard deviation of a group's returns."""

EQUAL_GROUPS = Metric(
    "equal_groups", "", "Fraction of the groups whose episodes all have the same return, so that none is reinforced"
)

CUT_OFF = (
    "an episode was truncated, and counts as ended: without a value network, rewards after a time limit cannot be "
    "estimated"
)


class EpisodeGroups(StatefulOperator):
    """Collects the episodes of each group until the last one has ended, and emits their steps with advantages.

    Inputs are pairs (worker index, fragment [T, B]), whose episodes are numbered over the worker's env slots. Every G
    consecutive episodes form a group: they were reset with the same seed. An output [1, N] has all N steps of a group.
    Each step gets its episode's advantage, computed from the discounted returns R in the group: R minus the mean
    over the other episodes, or (R - mean) / (standard deviation + epsilon).

    Args:
        group_size: Number of episodes in a group, G.
        gamma: Discount factor.
        leave_one_out: Whether the baseline is the mean over the other episodes, and advantages are not divided by the
            standard deviation.

    Source:
        Shao et al., arXiv:2402.03300, section 4.1.2; Ahmadian et al., arXiv:2402.14740, eq. 8.
    """

    declared_metrics = (EQUAL_GROUPS,)

    def __init__(self, group_size: int, gamma: float, *, leave_one_out: bool) -> None:
        self.group_size = group_size
        self.gamma = gamma
        self.leave_one_out = leave_one_out
        self._running: dict[int | None, dict[int, SampleBatch]] = {}
        self._ended: dict[int | None, list[SampleBatch]] = {}
        self._restored = RestoredRows()
        self._has_warned = False
        self._equal = self._groups = 0

    @override
    def settings(self) -> dict[str, Any]:
        baseline = {"leave_one_out": True} if self.leave_one_out else {}
        return {"group_size": self.group_size, "gamma": self.gamma, **baseline}

    @override
    def metrics(self) -> dict[str, float]:
        """Returns the share of the groups since the last call whose returns were all equal."""
        equal, groups, self._equal, self._groups = self._equal, self._groups, 0, 0
        return {EQUAL_GROUPS.name: equal / groups} if groups else {}

    @override
    def __call__(self, item: tuple[int | None, SampleBatch]) -> list[SampleBatch]:
        """Emits the groups whose last episode has ended in a fragment.

        Raises:
            UsageError: Resets of the env ignore their seed.
            TrainingFailed: An episode is too long.
        """
        worker, fragment = item
        steps = viewed(fragment).steps()
        if worker not in self._running:
            self._check_starts(steps)
        running, ended = self._running.setdefault(worker, {}), self._ended.setdefault(worker, [])
        for slot in range(steps["valid"].shape[1]):
            rows = steps["valid"][:, slot].nonzero()[0]
            own = steps.map(lambda leaf, rows=rows, slot=slot: leaf[rows, slot])
            self._restored.compare(own)
            for episode in _episodes_of(running.pop(slot, None), own):
                if _has_ended(episode):
                    ended.append(episode)
                else:  # the slot's last episode; others were abandoned when a run could not be resumed exactly
                    running[slot] = episode
        require_end(
            max((len(episode["valid"]) for episode in running.values()), default=0),
            "groups consist of whole episodes: set env.max_episode_steps, or use ppo",
        )
        complete, waiting = self._sorted(ended, fragment[EPISODE][-1])
        self._ended[worker] = waiting
        return [self._compared(group) for group in complete]

    def _check_starts(self, steps: SampleBatch) -> None:
        """Raises a UsageError if env slots that were first reset with equal seeds show different observations."""
        if steps[EPISODE][0].min() >= self.group_size * len(steps[EPISODE][0]):  # the worker was restarted
            return
        groups = steps[EPISODE][0] // self.group_size
        firsts = np.searchsorted(groups, groups)
        for leaf in leaves(steps["obs"]):
            if not np.array_equal(leaf[0], leaf[0][firsts], equal_nan=leaf.dtype.kind == "f"):
                raise UsageError(
                    "the env ignores the seed of reset(): two resets with the same seed gave different observations, "
                    "but all episodes of a group must start from the same state. Call super().reset(seed=seed) and "
                    "draw from self.np_random, or use ppo"
                )

    def _sorted(
        self, ended: Sequence[SampleBatch], present: NDArray[np.int64]
    ) -> tuple[list[list[SampleBatch]], list[SampleBatch]]:
        """Splits episodes into complete groups, and episodes whose group may still be completed.

        Args:
            ended: Episodes that have ended.
            present: Numbers of the env slots' present episodes, [B].
        """
        groups: dict[int, list[SampleBatch]] = {}
        for episode in sorted(ended, key=lambda each: int(each[EPISODE][0])):
            groups.setdefault(int(episode[EPISODE][0]) // self.group_size, []).append(episode)
        alive = {int(number) // self.group_size for number in present}
        complete = [group for group in groups.values() if len(group) == self.group_size]
        waiting = [
            episode
            for number, group in groups.items()
            if len(group) < self.group_size and (number in alive or number >= max(alive))
            for episode in group
        ]
        return complete, waiting

    def _compared(self, group: Sequence[SampleBatch]) -> SampleBatch:
        """Joins the episodes of a group to a batch [1, N] with advantages."""
        if not self._has_warned and any(not episode["terminateds"][-1] for episode in group):
            self._has_warned = True
            warnings.warn(CUT_OFF, stacklevel=2)
        returns = np.array([discounted_sum(episode["rewards"], self.gamma) for episode in group])
        advantages = returns - returns.mean()
        if self.leave_one_out:
            advantages *= self.group_size / (self.group_size - 1)
        else:
            advantages /= returns.std() + EPSILON
        self._groups += 1
        self._equal += int(np.ptp(returns) == 0)
        lengths = [len(episode["valid"]) for episode in group]
        steps = concatenated_rows(group)
        del steps[EPISODE]
        return SampleBatch(steps, advantages=np.repeat(advantages, lengths).astype(np.float32)).map(itemgetter(None))

    @override
    def state(self) -> dict[str, Any]:
        """Returns each worker's episodes that are running or waiting for the rest of their group."""
        return {
            "workers": [
                {
                    "worker": worker,
                    "running": [[slot, dict(rows)] for slot, rows in running.items()],
                    "ended": [dict(rows) for rows in self._ended[worker]],
                }
                for worker, running in self._running.items()
            ],
            "has_warned": self._has_warned,
        }

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        self._running, self._ended, rows = {}, {}, []
        for saved in state["workers"]:
            worker = saved["worker"]
            self._running[worker] = {int(slot): SampleBatch(own) for slot, own in saved["running"]}
            self._ended[worker] = [SampleBatch(own) for own in saved["ended"]]
            rows += [*self._running[worker].values(), *self._ended[worker]]
        self._has_warned = bool(state["has_warned"])
        self._restored.load(rows)


def _episodes_of(held: SampleBatch | None, own: SampleBatch) -> Iterator[SampleBatch]:
    """Yields the episodes, or parts of them, to which an env slot's steps belong, in order."""
    steps = own if held is None else concatenated_rows([held, own])
    changes = np.flatnonzero(np.diff(steps[EPISODE])) + 1
    for begin, end in pairwise([0, *changes.tolist(), len(steps[EPISODE])]):
        if begin < end:
            yield steps.map(lambda leaf, begin=begin, end=end: leaf[begin:end].copy())


def _has_ended(episode: SampleBatch) -> bool:
    return bool(episode["terminateds"][-1] or episode["truncateds"][-1])


def discounted_sum(rewards: NDArray[np.float32], gamma: float) -> float:
    """Returns the discounted sum of an episode's rewards, [L], as seen from its first step.

    Examples:
        >>> discounted_sum(np.array([1.0, 1.0, 2.0]), 0.5)
        2.0
    """
    return float(rewards.astype(np.float64) @ gamma ** np.arange(len(rewards)))
