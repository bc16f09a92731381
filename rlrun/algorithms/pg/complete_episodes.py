"""Assembly of complete episodes from rollout fragments, for Monte Carlo returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.data.restored_rows import RestoredRows
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.data.views import viewed
from rlrun.engine.flow.flow import Operator, StatefulOperator
from rlrun.engine.functional.returns import reverse_scan
from rlrun.engine.messages.errors import TrainingFailed
from rlrun.engine.reward_streams.streams import ENV_ALONE, RewardStreams
from rlrun.engine.rollout.endless_episodes import end_if_requested

LONGEST_EPISODE = 100_000
"""Maximum length of an episode in steps, all of which are buffered until the episode ends."""


class CompleteEpisodes(StatefulOperator):
    """Collects complete episodes, and emits their steps with returns once they have ended.

    Each worker runs its own copy, which joins the worker's consecutive rollout fragments. Output batches [1, N] hold
    the steps of the episodes that ended in a fragment. `value_targets` is the discounted sum of rewards from the step
    on; `advantages` is the same, minus the estimated value if there is a baseline. A truncated episode bootstraps with
    the value of its final observation, or 0 without a baseline. Each additional reward stream has the same columns,
    prefixed with the stream's name; all streams must be episodic.

    Args:
        gamma: Discount of the env's rewards.
        use_baseline: Whether a value baseline is subtracted from returns.
        streams: Additional reward streams.

    Raises:
        TrainingFailed: An episode is longer than `LONGEST_EPISODE` steps, all of which are buffered.
    """

    def __init__(self, gamma: float, use_baseline: bool, streams: RewardStreams = ENV_ALONE) -> None:
        self.streams = streams.all(gamma, gae_lambda=1.0)
        self.use_baseline = use_baseline
        self._held: list[SampleBatch] = []
        self._restored = RestoredRows()

    @override
    def settings(self) -> dict[str, Any]:
        own, *further = self.streams
        names = {"further_streams": [stream.name for stream in further]} if further else {}
        return {"gamma": own.gamma, "use_baseline": self.use_baseline, **names}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Emits the N steps of the episodes that ended in a fragment [T, B], as [1, N]."""
        item = viewed(item)
        ends = item["valid"] & (item["terminateds"] | item["truncateds"])
        own = SampleBatch(item.steps(), **self._final_values(item), ends=ends)
        self._restored.compare(own)
        if not ends.any():  # if each fragment were joined, a long episode would be copied many times
            self._hold([*self._held, _behind(own, _last_true(ends))])
            return self._picked(own, np.zeros_like(ends))
        steps = _joined([*self._held, own])
        last_ends = _last_true(steps["ends"])
        complete = steps["valid"] & (np.arange(len(steps["valid"]))[:, None] <= last_ends)
        self._hold([_behind(steps, last_ends)])
        return self._picked(steps, complete)

    def _final_values(self, item: SampleBatch) -> dict[str, NDArray[np.float32]]:
        """Bootstrap values [T, B] of each reward stream: final values at truncations, 0 elsewhere."""
        cut_off = item["valid"] & item["truncateds"] & ~item["terminateds"]
        found = {}
        for stream in self.streams:
            after = item[stream.column("values")][1:]
            after = after if self.use_baseline else np.zeros_like(after)
            found[stream.column("final_values")] = np.where(cut_off, after, 0.0)
        return found

    def _hold(self, parts: Sequence[SampleBatch]) -> None:
        """Buffers the steps of unfinished episodes.

        Raises:
            TrainingFailed: An episode is longer than `LONGEST_EPISODE`.
            KeyboardInterrupt: The user interrupts during a long episode.
        """
        self._held = [part for part in parts if len(part["valid"])]
        require_end(
            sum(len(part["valid"]) for part in self._held),
            "this algorithm learns from whole episodes: set env.max_episode_steps, or use an algorithm that learns "
            "from partial episodes, such as a2c or ppo",
        )

    def _picked(self, own: SampleBatch, complete: NDArray[np.bool_]) -> SampleBatch:
        """Gathers the steps [T, B] of complete episodes, with their returns, as [1, N]."""
        temporary = {"ends", *(stream.column("final_values") for stream in self.streams)}
        picked = SampleBatch({name: column for name, column in own.items() if name not in temporary})
        for stream in self.streams:
            rewards = own[stream.rewards] + stream.gamma * own[stream.column("final_values")]
            # A row without a step passes on the next row's return; an episode's last step does not add that return.
            decays = np.where(own["valid"], stream.gamma * ~own["ends"], 1.0)
            returns = reverse_scan(np.where(own["valid"], rewards, 0.0), decays)
            baseline = own[stream.column("values")] if self.use_baseline else 0.0
            picked[stream.column("value_targets")] = returns.astype(np.float32)
            picked[stream.column("advantages")] = (returns - baseline).astype(np.float32)
        order = complete.T.nonzero()  # makes each episode's steps contiguous
        return picked.map(lambda leaf: leaf[order[1], order[0]][None])

    @override
    def state(self) -> dict[str, Any]:
        return {"held": dict(_joined(self._held)) if self._held else None}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        held = state["held"]
        self._held = [] if held is None else [SampleBatch(map_tree(np.asarray, dict(held)))]
        self._restored.load(self._held)


def require_end(length: int, why: str) -> None:
    """Checks the length of an unfinished episode whose steps are buffered.

    Args:
        length: Number of steps in the episode so far.
        why: Part of the error message: why the episode must end, and what to do.

    Raises:
        TrainingFailed: The episode is longer than `LONGEST_EPISODE`.
        KeyboardInterrupt: The user interrupts during a long episode.
    """
    end_if_requested(length)
    if length > LONGEST_EPISODE:
        raise TrainingFailed(f"an episode has not ended after {LONGEST_EPISODE:,} steps, but {why}")


class JoinEpisodes(Operator):
    """Transposes a batch of N steps from [1, N] to [N, 1], so that its episodes form one sequence in time.

    The column `episode_starts` resets the recurrent state between consecutive episodes.
    """

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        return item.map(lambda leaf: leaf[0][:, None])


def _joined(parts: Sequence[SampleBatch]) -> SampleBatch:
    """Concatenates batches [T, B] along time."""
    first = parts[0]
    return SampleBatch({name: map_tree(_concatenated, *(part[name] for part in parts)) for name in first})


def _concatenated(*leaves: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate(leaves)


def _behind(steps: SampleBatch, last_ends: NDArray[np.int64]) -> SampleBatch:
    """Keeps the steps after each env slot's last episode end, and masks earlier steps as invalid."""
    length = len(steps["valid"])
    unfinished = (steps["valid"] & (np.arange(length)[:, None] > last_ends)).any(axis=1)
    first = int(unfinished.argmax()) if unfinished.any() else length
    kept = SampleBatch({name: map_tree(lambda leaf: leaf[first:].copy(), tree) for name, tree in steps.items()})
    over = np.arange(first, length)[:, None] <= last_ends
    kept["valid"][over] = False
    kept["ends"][over] = False
    return kept


def _last_true(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Time index of the last True in each slot, [B]; -1 if there is none."""
    reversed_first = flags[::-1].argmax(axis=0)
    return np.where(flags.any(axis=0), len(flags) - 1 - reversed_first, -1)
