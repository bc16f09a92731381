"""Recorder of the critic's Q values on rollout workers, for initial replay priorities (NumPy)."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from rlrun.engine.data.sample_batch import SampleBatch
from rlrun.engine.data.tree import map_tree
from rlrun.engine.data.views import viewed
from rlrun.engine.nn.acting import ActingNetwork
from rlrun.engine.policy.action_spaces.action_space import Floats
from rlrun.engine.policy.fragment_collector import Execution, FragmentCollector, Recording


class CriticValues(Recording):
    """Adds the Q values of greedy actions, [T + 1, B], and of the actions taken, [T, B], to a worker's rollouts.

    Both are computed at the end of a fragment (T steps of B parallel envs), each in one forward pass.

    Args:
        critic: Q network with the inputs `obs` and `actions`.
    """

    def __init__(self, critic: ActingNetwork) -> None:
        self.critic = critic

    @override
    def load(self, flat: Floats) -> None:
        """Loads the critic's weights from the flat vector of parameters that workers receive."""
        self.critic.load(flat)

    @override
    def collect_by(self, execution: Execution) -> None:
        """Replaces the critic's forward pass with an equivalent implementation, such as C kernels."""
        self.critic = execution(self.critic)

    @override
    def postprocess(self, batch: SampleBatch, collector: FragmentCollector) -> None:
        """Adds the columns `values` [steps + 1, envs] (Q of greedy actions) and `taken_values` [steps, envs]."""
        taken = batch["actions"]
        length, slots = taken.shape[:2]
        cells = (length + 1) * slots
        rows = collector.filter(map_tree(lambda leaf: leaf.reshape(cells, *leaf.shape[2:]), viewed(batch)["obs"]))
        heads, _ = collector.network({"obs": rows})
        own = collector.action_space.mode(heads["outputs"])
        batch["values"] = self._values(rows, own).reshape(length + 1, slots)
        began = map_tree(lambda leaf: leaf[: length * slots], rows)
        batch["taken_values"] = self._values(began, taken.reshape(length * slots, -1)).reshape(length, slots)

    def _values(self, observations: Any, actions: Any) -> Floats:
        heads, _ = self.critic({"obs": observations, "actions": actions})
        return heads["outputs"]
