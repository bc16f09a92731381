"""Recorder of Q values of greedy and of taken actions, for initial replay priorities (NumPy)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.data.views import viewed
from rlrun.engine.nn.acting import ActingNetwork, Heads
from rlrun.engine.policy.action_spaces.action_space import Floats
from rlrun.engine.policy.behavior import BehaviorPolicy, Execution


class CriticValues:
    """Records Q values of greedy actions, `values` [T + 1, B], and of taken actions, `taken_values` [T, B].

    Both are computed at the end of a fragment, each in one forward pass.

    Args:
        critic: Q network with the inputs `obs` and `actions`.
    """

    reads_heads = False

    def __init__(self, critic: ActingNetwork) -> None:
        self.critic = critic

    def load(self, flat: Floats) -> None:
        """Loads the acting parameters [A]."""
        self.critic.load(flat)

    def collect_by(self, execution: Execution) -> None:
        """Wraps the critic in another way to execute it."""
        self.critic = execution(self.critic)

    def allocate(self, length: int, slots: int) -> dict[str, NDArray[Any]]:
        """Allocates no columns: `postprocess` adds `values` and `taken_values`."""
        return {}

    def record(self, batch: SampleBatch, where: Any, heads: Heads, acts: NDArray[np.bool_] | None) -> None:
        """Records nothing at single steps: Q values are computed once per fragment."""

    def postprocess(self, batch: SampleBatch, policy: BehaviorPolicy) -> None:
        """Adds the columns `values` [T + 1, B] and `taken_values` [T, B] to a fragment."""
        taken = batch["actions"]
        length, slots = taken.shape[:2]
        cells = (length + 1) * slots
        rows = policy.filtered(map_tree(lambda leaf: leaf.reshape(cells, *leaf.shape[2:]), viewed(batch)["obs"]))
        heads, _ = policy.network({"obs": rows})
        own = policy.action_space.mode(heads["outputs"])
        batch["values"] = self._values(rows, own).reshape(length + 1, slots)
        began = map_tree(lambda leaf: leaf[: length * slots], rows)
        batch["taken_values"] = self._values(began, taken.reshape(length * slots, -1)).reshape(length, slots)

    def _values(self, observations: Any, actions: Any) -> Floats:
        heads, _ = self.critic({"obs": observations, "actions": actions})
        return heads["outputs"]
