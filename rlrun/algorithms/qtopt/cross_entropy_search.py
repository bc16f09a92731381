"""Greedy acting by maximisation of a Q function over continuous actions (NumPy)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.algorithms.qtopt.cross_entropy_method import greedy_actions
from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.functional.seeding import generator
from rlrun.engine.nn.acting import ActingNetwork, Heads
from rlrun.engine.policy.action_spaces.action_space import Floats


class CrossEntropySearch:
    """Acting network that maximises a Q function by the cross-entropy method.

    The noise is fixed over steps, so that the action is a deterministic function of the observation.

    Args:
        critic: Acting Q network with the inputs `obs` and `actions`.
        size: Size of an action, D.
        iterations: Number of iterations.
        samples: Number of samples per iteration.
        elites: Number of elites per iteration.
    """

    state_size = 0

    def __init__(self, critic: ActingNetwork, size: int, *, iterations: int, samples: int, elites: int) -> None:
        self.critic = critic
        self.elites = elites
        self.samples = generator(0, "samples of actions").standard_normal((iterations, samples, size), np.float32)

    def load(self, flat: Floats) -> None:
        """Loads the critic's parameters [A]."""
        self.critic.load(flat)

    def __call__(
        self,
        inputs: Mapping[str, Any],
        state: Floats | None = None,
        episode_starts: NDArray[np.bool_] | None = None,
        noise: Floats | None = None,
    ) -> tuple[Heads, Floats | None]:
        """Greedy actions in [-1, 1] as the head `outputs`, [B, D]."""
        samples, size = self.samples.shape[1:]
        repeated = map_tree(lambda leaf: leaf.repeat(samples, axis=0), inputs["obs"])
        rows = len(leaves(inputs["obs"])[0])

        def values_of(actions: Floats) -> Floats:
            heads, _ = self.critic({"obs": repeated, "actions": actions.reshape(-1, size)})
            return heads["outputs"].reshape(rows, samples)

        found: Floats = greedy_actions(
            values_of, np.broadcast_to(self.samples, (rows, *self.samples.shape)), self.elites
        )
        return {"outputs": found}, None
