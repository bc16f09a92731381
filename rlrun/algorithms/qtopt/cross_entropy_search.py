"""Maximization of a Q function over continuous actions by the cross-entropy method (NumPy and torch)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlrun.engine.data.tree import leaves, map_tree
from rlrun.engine.functional.seeding import generator
from rlrun.engine.nn.acting import ActingNetwork, Heads
from rlrun.engine.policy.action_spaces.action_space import Floats


class CrossEntropySearch:
    """Network for action selection that maximizes a Q function by the cross-entropy method.

    The sampling noise is the same at each step, so that the action is a deterministic function of the observation.

    Args:
        critic: Q network with the inputs `obs` and `actions`.
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
        """Loads the critic's parameters from a flat vector."""
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


FIRST_DEVIATION = 0.7
"""Initial standard deviation of samples with mean 0, for actions in [-1, 1]. Samples are clipped; with a larger value,
often all elites would be the same clipped action."""


def greedy_actions(values_of: Callable[[Any], Any], noise: Any, num_elites: int) -> Any:
    """Maximizes a function of actions in [-1, 1] by the cross-entropy method.

    Each iteration samples a diagonal normal distribution, and refits it to the elites. The result is the best sample
    of the last iteration. Arrays and tensors are both supported.

    Args:
        values_of: Function to maximize: values [S, N] of N actions [S, N, D] for each of S observations.
        noise: Standard normal noise, [S, iterations, N, D].
        num_elites: Number of elites.

    Returns:
        Actions, [S, D].

    Source:
        Kalashnikov et al., arXiv:1806.10293, section 4.2 and appendix E.
    """
    rows, iterations, samples, size = noise.shape
    actions = (FIRST_DEVIATION * noise[:, 0]).clip(-1, 1)
    ranks = values_of(actions).argsort(-1).argsort(-1).reshape(rows, samples, 1)
    for i in range(1, iterations):
        is_elite = ranks >= samples - num_elites
        means = ((actions * is_elite).sum(-2) / num_elites).reshape(rows, 1, size)
        variances = (((actions - means) ** 2 * is_elite).sum(-2) / num_elites).reshape(rows, 1, size)
        actions = (means + variances**0.5 * noise[:, i]).clip(-1, 1)
        ranks = values_of(actions).argsort(-1).argsort(-1).reshape(rows, samples, 1)
    return (actions * (ranks == samples - 1)).sum(-2)
