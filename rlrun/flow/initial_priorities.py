"""Priorities of experience before anything was learned from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Operator
from rlrun.flow.operators import LearnResult
from rlrun.flow.replay import StoreToReplay
from rlrun.replay.n_step import folded

if TYPE_CHECKING:
    from rlrun.replay.replay_buffer import ReplayBuffer
    from rlrun.rollout.worker_set import WorkerSet

PRIORITIES = "priorities"
"""Column of a fragment that says how much is to be learned from each of its steps, [T, B]."""


class InitialPriorities(Operator):
    """Adds each step's temporal difference at the weights that acted, `priorities` [T, B].

    It takes what the acting side has recorded: `q_values` [T + 1, B, A] of all actions, or `values` [T + 1, B] of the
    best ones and `taken_values` [T, B]; these do not travel any further. A step nearer to the fragment's end than
    `n_step` looks ahead to that end.

    Source:
        Horgan et al., arXiv:1803.00933, section 3 and algorithm 1 (ComputePriorities).
    """

    def __init__(self, n_step: int, gamma: float) -> None:
        """Takes over how many steps rewards are added up, and the discount."""
        self.n_step = n_step
        self.gamma = gamma

    def settings(self) -> dict[str, Any]:
        """Returns what the printed plan shows."""
        return {"n_step": self.n_step, "gamma": self.gamma}

    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Returns the fragment with the column; 0 in cells that no step filled."""
        batch = SampleBatch(item)
        valid = batch["valid"]
        if "q_values" in batch:
            values = batch.pop("q_values")
            taken = np.take_along_axis(values[:-1], batch["actions"][..., None], -1)[..., 0]
            best = values.max(-1)
        else:
            best, taken = batch.pop("values"), batch.pop("taken_values")
        found = folded(
            batch["rewards"], batch["terminateds"], batch["truncateds"], valid, gamma=self.gamma, n_step=self.n_step
        )
        length, columns = valid.shape
        behind = np.arange(length)[:, None] + found.steps
        ahead = best[behind, np.arange(columns)]
        errors = np.abs(found.rewards + found.discounts * ahead - taken)
        batch[PRIORITIES] = np.where(valid, errors, 0).astype(np.float32)
        return batch


class StoreWithPriorities(StoreToReplay):
    """Puts each fragment by with the priorities that it came with, if any; takes pairs of worker and fragment."""

    def __init__(self, replay: ReplayBuffer, workers: WorkerSet) -> None:
        """Takes where to, and whose fragments they are."""
        super().__init__(replay, workers)
        self._buffer = replay

    def __call__(self, item: tuple[int | None, SampleBatch]) -> LearnResult:
        """Returns how many steps were put by."""
        worker, fragment = item
        lane = 0 if worker is None else self._lanes[worker]
        return LearnResult(self._buffer.add(lane, fragment, fragment.get(PRIORITIES)))
