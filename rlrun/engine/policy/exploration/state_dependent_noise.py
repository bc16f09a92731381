"""Generalized state-dependent exploration, gSDE (NumPy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rlrun.engine.policy.action_masks import ActionMask
from rlrun.engine.policy.action_spaces.action_space import Actions, Floats, StochasticActions
from rlrun.engine.policy.exploration.exploration import Exploration, Heads, RunNetwork


class StateDependentNoise(Exploration):
    """Generalized state-dependent exploration (gSDE): noise is a function of the observation, held for several steps.

    The function is linear in the features that enter the network's heads; its coefficients, the exploration matrix, are
    Gaussian. The acting network computes the noise.

    Args:
        actions: Action space with the policy's distributions.
        features: Number of rows of the exploration matrix, F.
        num_actions: Number of columns of the exploration matrix, D.
        every: Number of steps for which an exploration matrix is held; None for a whole fragment.

    Source:
        Raffin, Kober and Stulp, arXiv:2005.05719, eqs. 6 to 9.
    """

    samples_policy = True

    def __init__(self, actions: StochasticActions, features: int, num_actions: int, every: int | None) -> None:
        self.actions = actions
        self.network_noise = features * num_actions
        self.network_noise_every = every

    @override
    def noise(self, generator: np.random.Generator, length: int, slots: int) -> Floats:
        """Draws, for T steps in B env slots, exploration matrices followed by independent noise for sampling actions.

        The shape is [T, B, F * D + num_noise]. Each matrix, flattened to F * D numbers, is repeated for `every` steps.

        A new matrix starts at step 0; if necessary, `FragmentNoise` continues the matrix of the previous fragment.
        """
        every = min(self.network_noise_every or length, length)
        drawn = generator.standard_normal((-(-length // every), slots, self.network_noise), np.float32)
        return np.concatenate(
            [np.repeat(drawn, every, axis=0)[:length], self.actions.noise(generator, (length, slots))], -1
        )

    @override
    def explore(
        self,
        run: RunNetwork,
        noise: Floats,
        episode_starts: NDArray[np.bool_],
        acts: NDArray[np.bool_] | None,
        mask: ActionMask | None,
    ) -> Actions:
        """Chooses the actions of a step with the state-dependent noise that the network computed."""
        heads = run()
        return self.actions.sample(heads["outputs"], heads["noise"])

    @override
    def sample(self, heads: Heads, generator: np.random.Generator, mask: ActionMask | None) -> Actions:
        """Samples actions with independent Gaussian noise when no fragment is recorded (as in evaluation)."""
        outputs = heads["outputs"]
        return self.actions.sample(outputs, self.actions.noise(generator, (len(outputs),)))
