"""Priorities of experience before anything was learned from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlrun.data.sample_batch import SampleBatch
from rlrun.flow.flow import Operator
from rlrun.replay.n_step import folded
from rlrun.replay.replay_buffer import PRIORITIES


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
