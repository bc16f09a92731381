"""Initial replay priorities of fragments, computed on the workers."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from rlrun.engine.data.action_masks import FORBIDDEN
from rlrun.engine.data.packing import Packing
from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.flow.flow import Operator
from rlrun.engine.replay.n_step import n_step_transitions
from rlrun.engine.replay.replay_buffer import PRIORITIES

_VALUES = ("q_values", "values", "taken_values")


class InitialPriorities(Operator):
    """Adds each step's absolute TD error at the acting weights, `priorities` [T, B].

    TD errors are computed from recorded columns: `q_values` [T + 1, B, A] of all actions, or `values` [T + 1, B] of the
    greedy and `taken_values` [T, B] of the taken actions. These columns are then removed. Near the end of the fragment,
    n-step returns end with the fragment.

    Source:
        Horgan et al., arXiv:1803.00933, section 3 and algorithm 1 (ComputePriorities).
    """

    def __init__(self, n_step: int, gamma: float) -> None:
        self.n_step = n_step
        self.gamma = gamma

    @override
    def settings(self) -> dict[str, Any]:
        return {"n_step": self.n_step, "gamma": self.gamma}

    @override
    def __call__(self, item: SampleBatch) -> SampleBatch:
        """Adds the column `priorities` [T, B] to a fragment, with 0 at invalid steps."""
        rows = Packing(item["valid"], item["terminateds"], item["truncateds"])
        rewards, terminateds, valid = (rows.pack(item[name]) for name in ("rewards", "terminateds", "valid"))
        if "q_values" in item:
            values = rows.pack(item["q_values"])
            actions = np.where(valid, rows.pack(item["actions"]), 0)
            taken = np.take_along_axis(values[:-1], actions[..., None], -1)[..., 0]
            best = values.max(-1)
            # An episode's final observation may allow no action; its value must not enter priorities.
            best = np.where(best == FORBIDDEN, 0, best)
        else:
            best, taken = rows.pack(item["values"]), rows.pack(item["taken_values"])
        found = n_step_transitions(rewards, terminateds, rows.truncateds, valid, gamma=self.gamma, n_step=self.n_step)
        length, slots = valid.shape
        behind = np.arange(length)[:, None] + found.steps
        errors = np.abs(found.rewards + found.discounts * best[behind, np.arange(slots)] - taken)
        batch = SampleBatch({name: column for name, column in item.items() if name not in _VALUES})
        batch[PRIORITIES] = rows.unpack(np.where(valid, errors, 0).astype(np.float32))
        return batch
